import { useEffect, useState } from "react";
import { ago, moment } from "../format";

let clockNow = Date.now();
const ticking = new Set<() => void>();
setInterval(() => {
  clockNow = Date.now();
  for (const tick of ticking) tick();
}, 10_000);

/** A moment, relative, with the exact one on hover. */
export function Time({ at, none = "never" }: { at: string | undefined; none?: string }) {
  const [, setTick] = useState(0);
  useEffect(() => {
    const tick = () => setTick((count) => count + 1);
    ticking.add(tick);
    return () => {
      ticking.delete(tick);
    };
  }, []);
  if (!at) return <span className="quiet">{none}</span>;
  return (
    <time dateTime={at} title={moment(at)}>
      {ago(at, Math.max(clockNow, Date.now() - 10_000))}
    </time>
  );
}
