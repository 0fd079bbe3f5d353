/** Going to a provider to sign in, and coming back. */
import { useMutation } from "@tanstack/react-query";
import { api, ask, type Schemas } from "../../api/client";
import { Refusal } from "../../api/problem";
import { useOrg } from "../../app/account";
import type { Values } from "./fields";
import type { Connection } from "./words";

/** What this tab remembers of a sign-in while it is away. The provider sends back the state, which knows no account. */
interface Away {
  org: string;
  id: string;
}

const place = (state: string) => `portico.connect.${state}`;

function remembered(state: string): Away | undefined {
  const kept = sessionStorage.getItem(place(state));
  return kept === null ? undefined : (JSON.parse(kept) as Away);
}

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
      sessionStorage.setItem(place(state), JSON.stringify({ org: org_id, id: sign_in.id } satisfies Away));
      window.location.assign(authorize_url);
      // The page is left; until then the form stays busy.
      await new Promise(() => undefined);
    },
  });
}

/** What a provider sends back. */
export type Brought = { state: string; code: string; error: string };

/** What a sign-in that was completed before came to, where this tab began it. */
async function outcome({ org, id }: Away): Promise<Connection | undefined> {
  const path = { org_id: org, sign_in_id: id };
  const answer: Schemas["SignInAnswer"] = await ask(
    api.GET("/v1/accounts/orgs/{org_id}/connections/connect/{sign_in_id}", { params: { path } }),
  );
  return answer.connection ?? undefined;
}

async function completeOnce(org: string, brought: Brought): Promise<Connection> {
  const away = remembered(brought.state);
  try {
    const params = { path: { org_id: away?.org ?? org } };
    return (await ask(api.POST("/v1/accounts/orgs/{org_id}/connections/connect/complete", { params, body: brought }))).connection;
  } catch (error) {
    // A state works once. Whoever loads the page again, or lost the answer, is told what became of it.
    const done = error instanceof Refusal && error.reason === "STATE_INVALID" && away ? await outcome(away) : undefined;
    if (!done) throw error;
    return done;
  }
}

const underWay = new Map<string, Promise<Connection>>();

/** Completes a sign-in, once however often it is asked for; what did not reach the server may be tried again. */
export function complete(org: string, brought: Brought): Promise<Connection> {
  const known = underWay.get(brought.state);
  if (known) return known;
  const completing = completeOnce(org, brought).catch((error: unknown) => {
    if (error instanceof Refusal && (error.isOffline || error.status >= 500)) underWay.delete(brought.state);
    throw error;
  });
  underWay.set(brought.state, completing);
  return completing;
}
