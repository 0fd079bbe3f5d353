/**
 * The documents of the running server. They know the services behind it, which those that were built in cannot. The
 * built-in ones are shown at once, and stay where the server's cannot be had.
 */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useOrg } from "../app/account";
import { config } from "../config";
import type { StreamsDocument } from "./asyncapi";
import { authorized } from "./client";
import { digest } from "./digest";
import { AREAS, BUILT_IN } from "./document.gen";
import type { ApiDocument } from "./openapi";
import { Refusal } from "./problem";
import { queries } from "./queries";

/** A document is asked for anew after this long, when somebody comes back to the page. */
const STALE_MS = 5 * 60_000;

interface Versioned<D> {
  etag: string | null;
  document: D;
}

function documentAt<D>(path: string, send: (request: Request) => Promise<Response>) {
  const queryKey = ["document", path];
  return queryOptions({
    queryKey,
    staleTime: STALE_MS,
    gcTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
    queryFn: async (): Promise<Versioned<D>> => {
      const known = queries.getQueryData<Versioned<D>>(queryKey);
      const headers = known?.etag ? { "if-none-match": known.etag } : undefined;
      const response = await send(new Request(config.baseUrl + path, { headers }));
      if (response.status === 304 && known) return known;
      if (!response.ok) throw new Refusal(null, response.status);
      return { etag: response.headers.get("etag"), document: (await response.json()) as D };
    },
  });
}

/** What everybody may read: every route of every plan that a token opens. */
export const openApi = documentAt<ApiDocument>("/openapi.json", fetch);

/** The streams and the events on them, which everybody may read. */
export const openAsyncApi = documentAt<StreamsDocument>("/asyncapi.json", fetch);

/** What the person may call in an account: the routes of its plan, and those for people alone. */
const ofAccount = (org: string) => documentAt<ApiDocument>(`/v1/openapi.json?account=${org}`, authorized);

/** What is made of a document, made once. A document that nothing can be made of counts as one that could not be had. */
export function made<D extends object, T>(make: (document: D) => T): (of: Versioned<D>) => T {
  const kept = new WeakMap<D, { it: T }>();
  return ({ document }) => {
    const found = kept.get(document) ?? { it: make(document) };
    kept.set(document, found);
    return found.it;
  };
}

const digestOf = made((document: ApiDocument) => digest(document, AREAS));

/** The operations, scopes and services of the account that is shown. */
export const useDigest = () => useQuery({ ...ofAccount(useOrg()), select: digestOf }).data ?? BUILT_IN;

/** Fetches them while nobody waits. */
export const prefetchDigest = (org: string) => queries.prefetchQuery(ofAccount(org));
