/** What a key or a token may do, as it is chosen: one of the sets that most are, or scopes of one's own. */
import { type Digest, isOffered } from "../../api/digest";

export const PRESETS = [
  ["read", "Read everything"],
  ["webhooks", "Webhooks"],
  ["assistant", "Assistant"],
] as const;

export type Preset = (typeof PRESETS)[number][0];

/** A set goes by its name, since what it holds may come with the document of the server. */
export type Chosen = Preset | readonly string[];

const FIXED: Record<Exclude<Preset, "read">, readonly string[]> = {
  webhooks: ["webhooks:read", "webhooks:write", "events:read"],
  assistant: ["mcp:read", "mcp:write"],
};

export function chosenScopes(chosen: Chosen, { scopes }: Digest): readonly string[] {
  if (typeof chosen !== "string") return chosen;
  if (chosen !== "read") return FIXED[chosen];
  return scopes.filter((scope) => isOffered(scope) && scope.isRead).map(({ name }) => name);
}
