import { Badge } from "../../ui/kit";
import { type Domain, REASONS, STATES } from "./words";

/** How the domain stands, in words. */
export function Status({ of }: { of: Domain }) {
  if (of.status === "verified" && of.unverified_reason !== "") return <Badge tone="warn">verified, but not for long</Badge>;
  const state = STATES[of.status];
  return <Badge tone={state?.tone ?? "plain"}>{state?.words ?? of.status}</Badge>;
}

/** What is wrong with it, in a sentence; nothing where nothing is. */
export const wrong = (of: Domain) => REASONS[of.unverified_reason] ?? "";
