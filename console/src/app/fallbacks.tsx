import { Link } from "@tanstack/react-router";
import { useEffect, useRef } from "react";
import { useReachable } from "../api/connectivity";
import { Button, Empty } from "../ui/kit";

export function NotFound() {
  return (
    <Empty
      title="There is no such page"
      action={
        <Link to="/" className="button primary">
          To the overview
        </Link>
      }
    >
      <p>The address may have been mistyped, or what it showed is gone.</p>
    </Empty>
  );
}

/** A page that failed: its file did not come, as after an update of the server, or it has a fault. */
export function PageError({ error }: { error: unknown }) {
  const reachable = useReachable();
  const wasCutOff = useRef(!reachable);
  useEffect(() => {
    if (reachable && wasCutOff.current) window.location.reload();
    wasCutOff.current ||= !reachable;
  }, [reachable]);
  return (
    <Empty
      title="This page could not be shown"
      action={
        <Button look="primary" onClick={() => window.location.reload()}>
          Load it again
        </Button>
      }
    >
      <p>{error instanceof Error ? error.message : "Something failed."}</p>
    </Empty>
  );
}
