/** What the API says of a domain in one word, in a sentence. */
import type { Schemas } from "../../api/client";
import type { Tone } from "../../ui/kit/badge";

export type Domain = Schemas["Domain"];
export type View = Schemas["ResolverView"];

export const STATES: Record<string, { tone: Tone; words: string }> = {
  pending: { tone: "plain", words: "waits for its record" },
  seen: { tone: "accent", words: "record seen, to be confirmed" },
  verified: { tone: "good", words: "verified" },
  unverified: { tone: "bad", words: "not verified" },
};

/** Why a domain is not verified any more, or soon will not be. */
export const REASONS: Record<string, string> = {
  token_expired: "Its record was not confirmed within seven days.",
  record_missing: "Its record is gone.",
  record_changed: "Other values stand where its record was.",
  unresolvable: "Nobody can say whether its record is there.",
  transferred: "Another account proved this domain.",
};

export const OUTCOMES: Record<string, { tone: Tone; words: string }> = {
  found: { tone: "good", words: "found" },
  other_value: { tone: "warn", words: "another value" },
  no_record: { tone: "bad", words: "no record" },
  nxdomain: { tone: "bad", words: "no such name" },
  servfail: { tone: "warn", words: "failure" },
  timeout: { tone: "warn", words: "no answer" },
  error: { tone: "warn", words: "no valid answer" },
  blocked: { tone: "plain", words: "may not be asked" },
  not_asked: { tone: "plain", words: "not asked" },
};

const SECOND_LEVELS = new Set(["ac", "co", "com", "edu", "gov", "go", "ne", "net", "or", "org"]);

/**
 * The zone that a panel most likely shows for the domain: of one that is no subdomain itself, or else its last two labels, three where
 * the second is like the `co` of `co.uk`. It only shortens the name that is shown, and the whole name stands beside it.
 */
export function zoneOf({ domain, scope }: Pick<Domain, "domain" | "scope">): string {
  if (scope === "domain") return domain;
  const labels = domain.split(".");
  const suffix = labels.at(-1)?.length === 2 && SECOND_LEVELS.has(labels.at(-2) ?? "") ? 2 : 1;
  return labels.slice(-suffix - 1).join(".");
}

/** The name of the record as a panel wants it that adds the zone by itself. */
export function inPanel({ record_name }: Pick<Domain, "record_name">, zone: string): string {
  return record_name.endsWith(`.${zone}`) ? record_name.slice(0, -zone.length - 1) : record_name;
}

/** What is wrong with a name, as far as that can be told without asking. */
export function fault(name: string): string | undefined {
  const text = name.trim().replace(/\.$/, "");
  if (text === "") return undefined;
  if (/[/:?#]/.test(text)) return "A domain is a name alone, without https:// and without a path or a port.";
  if (text.includes("@")) return "That is an e-mail address; the domain is what stands after the @.";
  if (text.includes("*")) return "A domain covers every name under it already; leave out the asterisk.";
  if (text.includes("_")) return "A domain has no underscores. What begins with one is the name of a record.";
  if (/\s/.test(text)) return "A domain has no spaces.";
  if (/^\d+(\.\d+){3}$/.test(text)) return "An IP address cannot be proven by DNS.";
  if (text.split(".").some((label) => label === "")) return "There are two dots beside each other, or one at the beginning.";
  return undefined;
}

/** Is it a name that the server can be asked about? */
export const isWhole = (name: string) => name.trim().replace(/\.$/, "").includes(".") && fault(name) === undefined;

/** Where the record was found instead, as a sentence about a mistake names it. */
export function wrongName(hint: string, message: string): string | undefined {
  if (!["doubled_name", "at_apex", "wrong_label"].includes(hint)) return undefined;
  return /^The record is at (\S+?)(?: itself)?\.(?:\s|$)/.exec(message)?.[1];
}
