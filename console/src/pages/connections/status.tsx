import { Badge, Time } from "../../ui/kit";
import { type Connection, STATUSES, whyNot } from "./words";

/** How the connection stands, in words. */
export function Status({ of }: { of: Connection }) {
  const status = STATUSES[of.status];
  return <Badge tone={status?.tone ?? "plain"}>{status?.words ?? of.status}</Badge>;
}

/** When it was last tested, and what came of it. */
export function LastTest({ of, why = false }: { of: Connection; why?: boolean }) {
  if (!of.last_test_at) return <span className="quiet">never</span>;
  return (
    <span>
      <span className={of.last_test_ok ? undefined : "bad-text"}>{of.last_test_ok ? "passed" : "failed"}</span> <Time at={of.last_test_at} />
      {why && !of.last_test_ok && <span className="quiet">. {whyNot(of.last_test_error)}</span>}
    </span>
  );
}
