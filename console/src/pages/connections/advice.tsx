import { Link } from "@tanstack/react-router";
import { asRefusal } from "../../api/problem";
import { Note } from "../../ui/kit";
import { SIGN_IN_REASONS } from "./words";

/** What there is to do about a refusal, beside what it says itself. */
export function Advice({ error }: { error: unknown }) {
  const refusal = asRefusal(error);
  if (!error) return null;
  const said = refusal.fact("provider_message");
  switch (refusal.reason) {
    case "DOMAIN_NOT_VERIFIED":
      return (
        <Note tone="warn" action={<Link to="/domains" className="button small">To the domains</Link>}>
          <strong>{refusal.fact("host")}</strong> is not in a domain that this account has proven. Prove the domain, and it may be called.
        </Note>
      );
    case "WORKSPACE_CONNECTED":
      return (
        <Note
          action={
            <Link to="/connections/$connection" params={{ connection: refusal.fact("connection_id") } as never} className="button small">
              The connection
            </Link>
          }
        >
          What the credential belongs to is connected already.
        </Note>
      );
    case "CREDENTIAL_REFUSED":
      return <Note>Nothing was stored. See that the credential is whole, has not ended, and is for the right place.</Note>;
    case "NO_CLIENT":
      return <Note>Whoever operates this installation has to set one up before anybody can sign in there.</Note>;
    case "SIGN_IN_FAILED":
      return <Note tone="warn">{SIGN_IN_REASONS[refusal.fact("reason")] ?? `The provider said: ${refusal.fact("reason")}.`}</Note>;
    case "NEEDS_RECONNECT":
      return <Note>Reconnect it first; see the top of the page.</Note>;
    default:
      return said ? <Note>The provider said: {said}</Note> : null;
  }
}
