import { Link } from "@tanstack/react-router";
import { asRefusal } from "../../api/problem";
import { Note } from "../../ui/kit";
import { whyNoSignIn } from "./words";

/** What there is to do about a refusal, beside what it says itself. With `calling`, an action was called, and nothing was to be stored. */
export function Advice({ error, calling = false }: { error: unknown; calling?: boolean }) {
  if (!error) return null;
  const refusal = asRefusal(error);
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
      return calling ? (
        <Note>Reconnect it with a credential that the provider takes.</Note>
      ) : (
        <Note>Nothing was stored. See that the credential is whole, has not ended, and is for the right place.</Note>
      );
    case "OTHER_WORKSPACE":
      return <Note>To use that account too, make a connection of its own for it.</Note>;
    case "SIGN_IN_FAILED":
      return <Note tone="warn">{whyNoSignIn(refusal.fact("reason"))}</Note>;
    case "STATE_INVALID":
      return <Note>A sign-in can be completed once, within ten minutes, by the person who began it. Begin it again.</Note>;
    case "NEEDS_RECONNECT":
      return <Note>Reconnect it first; see the top of the page.</Note>;
    default:
      return said ? <Note>The provider said: {said}</Note> : null;
  }
}
