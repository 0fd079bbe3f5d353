/**
 * The token that the reference tries calls with: made for it, with every scope to read and seven days of life, or pasted.
 * It stays in memory, and is gone with the page.
 */
import { useSyncExternalStore } from "react";
import { api, ask } from "../api/client";
import type { Scope } from "../api/digest";
import type { paths } from "../api/schema.gen";
import { config } from "../config";

export interface TestToken {
  token: string;
  org: string;
  name: string;
}

let current: TestToken | null = null;
const listeners = new Set<() => void>();

function set(next: TestToken | null) {
  current = next;
  for (const listener of listeners) listener();
}

export function useTestToken(): TestToken | null {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => current,
  );
}

type Body = paths["/v1/accounts/orgs/{org_id}/tokens"]["post"]["requestBody"]["content"]["application/json"];

/** Makes one for the person who is signed in, with every scope that only reads. */
export async function makeTestToken(org: string, scopes: readonly Scope[]): Promise<void> {
  const reads = scopes.filter(({ isRead }) => isRead).map(({ name }) => name);
  // The types know the platform's scopes alone.
  const body: Body = { name: "Reference test token", scopes: reads as Body["scopes"], days: 7 };
  const made = await ask(api.POST("/v1/accounts/orgs/{org_id}/tokens", { params: { path: { org_id: org } }, body }));
  set({ token: made.token, org, name: made.key.name });
}

/** Takes one that the reader has. What it is for, it says itself. */
export async function takeToken(token: string): Promise<void> {
  const response = await fetch(`${config.baseUrl}/v1/me`, { headers: { authorization: `Bearer ${token}` } });
  const me = (await response.json().catch(() => ({}))) as { org?: string; error?: string; name?: string };
  if (response.status === 401) throw new Error(me.error ?? "The token was refused.");
  // A token that may not read who it is can still be used.
  set({ token, org: me.org ?? "", name: me.name ?? "Pasted token" });
}

export const forgetToken = () => set(null);
