import { useEffect } from "react";
import { probe, useReachable } from "../api/connectivity";
import { Icon } from "../ui/icons";
import { SessionNote } from "../ui/kit";

/** What stands over every page while something is wrong with the connection or the session. */
export function Notices() {
  const reachable = useReachable();
  useEffect(() => {
    if (reachable) return;
    const timer = setInterval(() => void probe(), 1500);
    return () => clearInterval(timer);
  }, [reachable]);
  return (
    <div className="notices" aria-live="assertive">
      {!reachable && (
        <div className="notice warn">
          <Icon name="warn" />
          <span>The server cannot be reached. What you see may be old; this page goes on by itself when it is back.</span>
        </div>
      )}
      <SessionNote />
    </div>
  );
}
