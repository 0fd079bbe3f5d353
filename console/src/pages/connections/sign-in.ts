/** Going to a provider to sign in, and coming back. */
import { useMutation } from "@tanstack/react-query";
import { api, ask } from "../../api/client";
import { asRefusal } from "../../api/problem";
import { useOrg } from "../../app/account";
import type { Values } from "./fields";
import type { Connection } from "./words";

/** What this tab remembers of its last sign-in. The provider sends back the state, which knows no account. */
interface Away {
  state: string;
  org: string;
  id: string;
}

const PLACE = "portico.connect";

function remembered(state: string): Away | undefined {
  const away = JSON.parse(sessionStorage.getItem(PLACE) ?? "null") as Away | null;
  return away?.state === state ? away : undefined;
}

/** The account that a sign-in of this tab was begun in. */
export const beganIn = (state: string): string | undefined => remembered(state)?.org;

interface Wanted {
  connector: string;
  name?: string;
  description?: string;
  config?: Values;
  connection_id?: string;
}

/** Begins a sign-in, and goes there. */
export function useSignIn() {
  const org_id = useOrg();
  return useMutation({
    mutationFn: async (wanted: Wanted) => {
      const { sign_in, authorize_url } = await ask(
        api.POST("/v1/accounts/orgs/{org_id}/connections/connect", { params: { path: { org_id } }, body: wanted }),
      );
      const state = new URL(authorize_url).searchParams.get("state") ?? "";
      sessionStorage.setItem(PLACE, JSON.stringify({ state, org: org_id, id: sign_in.id } satisfies Away));
      window.location.assign(authorize_url);
      // The form stays busy until the page is left, and is ready again where a browser brings it back as it was.
      await new Promise((resolve) => window.addEventListener("pageshow", resolve, { once: true }));
    },
  });
}

/** What a provider sends back. Without a code and an error, somebody loads the page again. */
export type Brought = { state: string; code: string; error: string };

/** What a sign-in came to: a connection, or the reason why there is none. */
export type Outcome = { connection: Connection; reason?: undefined } | { connection?: undefined; reason: string };

/** What a sign-in of this tab came to that was completed before; nothing where it is not known any more. */
async function earlier({ org, id }: Away): Promise<Outcome | undefined> {
  const path = { org_id: org, sign_in_id: id };
  const { sign_in, connection } = await ask(api.GET("/v1/accounts/orgs/{org_id}/connections/connect/{sign_in_id}", { params: { path } }));
  if (connection) return { connection };
  return sign_in.reason ? { reason: sign_in.reason } : undefined;
}

async function completeOnce(org: string, brought: Brought): Promise<Outcome | null> {
  const away = remembered(brought.state);
  if (!brought.code && !brought.error) return (away && (await earlier(away))) ?? null;
  try {
    const params = { path: { org_id: away?.org ?? org } };
    return await ask(api.POST("/v1/accounts/orgs/{org_id}/connections/connect/complete", { params, body: brought }));
  } catch (error) {
    // A state works once. Whoever loads the page again, or lost the answer, is told what became of it.
    const known = asRefusal(error).reason === "STATE_INVALID" && away ? await earlier(away) : undefined;
    if (!known) throw error;
    return known;
  }
}

const underWay = new Map<string, Promise<Outcome | null>>();

/**
 * Completes a sign-in, once however often it is asked for; what did not reach the server may be tried again. Answers nothing where
 * there is nothing to complete, and nothing known of what was.
 */
export function complete(org: string, brought: Brought): Promise<Outcome | null> {
  const known = underWay.get(brought.state);
  if (known) return known;
  const completing = completeOnce(org, brought).catch((error: unknown) => {
    const { isOffline, status } = asRefusal(error);
    if (isOffline || status >= 500) underWay.delete(brought.state);
    throw error;
  });
  underWay.set(brought.state, completing);
  return completing;
}
