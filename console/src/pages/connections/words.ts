/** What the API says of connections in one word, in words for people. */
import type { Schemas } from "../../api/client";
import type { Tone } from "../../ui/kit/badge";

export type Connection = Schemas["Connection"];
export type Kind = Schemas["Kind"];
export type Action = Schemas["ActionDefinition"];
export type FieldDefinition = Schemas["FieldDefinition"];
export type Grant = Schemas["Grant"];
export type Use = Schemas["ConnectionUse"];
export type MaxClass = Grant["max_class"];

/** The kind of the account's own services. */
export const OWN_SERVICE = "endpoint";
/** The mode whose credentials come of a sign-in. */
export const SIGN_IN = "oauth2";

export const STATUSES: Record<string, { tone: Tone; words: string }> = {
  active: { tone: "good", words: "active" },
  paused: { tone: "plain", words: "paused" },
  needs_reconnect: { tone: "bad", words: "needs reconnecting" },
};

/** The modes of a credential. */
export const MODES: Record<string, string> = {
  api_key: "API key",
  basic: "E-mail and token",
  oauth2: "Sign-in",
  app: "App",
  secret: "Secret",
};

/** From the mildest to the strictest. */
export const CLASSES: readonly { name: MaxClass; title: string; upTo: string; about: string }[] = [
  { name: "read", title: "Reads", upTo: "Reading only", about: "Changes nothing." },
  { name: "write_reversible", title: "Writes", upTo: "Writing too", about: "What it changes can be changed back." },
  { name: "write_irreversible", title: "Writes for good", upTo: "Everything", about: "What it does cannot be taken back." },
];

const RANK: Record<string, number> = Object.fromEntries(CLASSES.map(({ name }, at) => [name, at]));

/** Is an action of that class allowed where `most` is the strictest that is? */
export const isWithin = (name: string, most: string) => (RANK[name] ?? CLASSES.length) <= (RANK[most] ?? 0);

export const classOf = (name: string) => CLASSES.find((each) => each.name === name);

type Label = "reads_private" | "reads_untrusted" | "sends_out";

export const LABELS: readonly [Label, string][] = [
  ["reads_private", "reads what is private"],
  ["reads_untrusted", "reads what strangers wrote"],
  ["sends_out", "sends something out"],
];

/** What actions of these do together, in words. */
export const labelsOf = (actions: readonly Action[]): string[] =>
  LABELS.filter(([label]) => actions.some((action) => action[label])).map(([, words]) => words);

/** Together they let a text of a stranger talk the caller into sending out what is private. */
export const isTrifecta = (actions: readonly Action[]) => labelsOf(actions).length === LABELS.length;

/** The actions of the kind that a grant with these values allows. */
export const allowed = (actions: readonly Action[], { max_class, actions: named }: Pick<Grant, "max_class" | "actions">): Action[] =>
  actions.filter(({ name, class: strict }) => isWithin(strict, max_class) && (named.length === 0 || named.includes(name)));

export const USE_STATUSES: Record<Use["status"], { tone: Tone; words: string }> = {
  ok: { tone: "good", words: "ok" },
  failed: { tone: "bad", words: "failed" },
  refused: { tone: "warn", words: "refused" },
};

const ERRORS: Record<string, string> = {
  no_grant: "The caller has no grant for it.",
  paused: "The connection was paused.",
  needs_reconnect: "The connection needs another credential.",
  bad_params: "A parameter did not fit.",
  domain_unverified: "The host is in no verified domain of the account.",
  blocked_address: "The address must not be called.",
  auth: "The provider refused the credential.",
  permission: "The credential may not do that at the provider.",
  not_found: "There is no such thing at the provider.",
  provider_4xx: "The provider refused it.",
  redirect: "The provider answered with a redirect, which is not followed.",
  rate_limited: "The provider takes no more calls for now.",
  too_large: "The answer is too large.",
  provider_5xx: "The provider failed.",
  network: "Nobody answered, or the connection broke.",
  timeout: "No answer came in time.",
  other_workspace: "The credential is for another account at the provider now.",
};

/** Why a use or a test did not end well, in a sentence. */
export const whyNot = (error: string) => ERRORS[error] ?? error;

const SIGN_IN_REASONS: Record<string, string> = {
  access_denied: "You did not allow it, or the provider did not let you.",
  exchange_refused: "The provider did not take its own code. It may have been used before, or the OAuth client is not set up right.",
  provider_error: "The provider answered with an error.",
  provider_failed: "The provider failed, or could not be reached. Try again in a while.",
  test_refused: "The provider gave a credential, and refused it at the first call.",
  choose_site: "You may see several sites there. Name the one that is meant in the configuration.",
  other_workspace: "You signed in to another account at the provider than the one that this connection belongs to.",
};

/** Why a sign-in came to nothing, in a sentence. */
export const whyNoSignIn = (reason: string) => SIGN_IN_REASONS[reason] ?? `The provider said: ${reason}.`;

/** A part of a credential. The catalogue names the modes of a kind; what each is made of stands here. */
export interface CredentialField {
  name: string;
  title: string;
  about: string;
  look: "plain" | "secret" | "lines";
}

export const CREDENTIALS: Record<string, readonly CredentialField[]> = {
  api_key: [{ name: "api_key", title: "API key", about: "A key or token that you made at the provider.", look: "secret" }],
  basic: [
    { name: "email", title: "E-mail", about: "The address of the account there.", look: "plain" },
    { name: "token", title: "Token", about: "A token of that account.", look: "secret" },
  ],
  app: [
    { name: "app_id", title: "App id", about: "The id of the app, or its client id.", look: "plain" },
    { name: "installation_id", title: "Installation id", about: "The id of the app's installation.", look: "plain" },
    { name: "private_key", title: "Private key", about: "The app's private key, as PEM.", look: "lines" },
  ],
  secret: [{ name: "secret", title: "Secret", about: "What the service wants to be shown with each call.", look: "secret" }],
};

const SHORT: Record<string, string> = { url: "URL", api: "API", jql: "JQL" };

/** The name of a field as a title: `base_url` is "Base URL". */
export function titled(name: string): string {
  const words = name.split("_").map((word) => SHORT[word] ?? word).join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}
