/**
 * The open documents of the running server. They know the services behind it, which those that were built in cannot. The
 * built-in ones are shown at once, and stay where the server's cannot be had.
 */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { config } from "../config";
import { digest } from "./digest";
import { AREAS, BUILT_IN } from "./document.gen";
import type { StreamsDocument } from "./asyncapi";
import type { ApiDocument } from "./openapi";
import { Refusal } from "./problem";
import { queries } from "./queries";

/** A document is asked for anew after this long, when somebody comes back to the page. */
const STALE_MS = 5 * 60_000;

interface Versioned<D> {
  etag: string | null;
  document: D;
}

function openDocument<D>(name: string) {
  const queryKey = ["document", name];
  return queryOptions({
    queryKey,
    staleTime: STALE_MS,
    gcTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
    queryFn: async (): Promise<Versioned<D>> => {
      const known = queries.getQueryData<Versioned<D>>(queryKey);
      const response = await fetch(`${config.baseUrl}/${name}`, known?.etag ? { headers: { "if-none-match": known.etag } } : {});
      if (response.status === 304 && known) return known;
      if (!response.ok) throw new Refusal(null, response.status);
      return { etag: response.headers.get("etag"), document: (await response.json()) as D };
    },
  });
}

/** What is made of a document, made once. A document that nothing can be made of counts as one that could not be had. */
export function made<D extends object, T>(make: (document: D) => T): (of: Versioned<D>) => T {
  const kept = new WeakMap<D, { it: T }>();
  return ({ document }) => {
    const found = kept.get(document) ?? { it: make(document) };
    kept.set(document, found);
    return found.it;
  };
}

export const openApi = openDocument<ApiDocument>("openapi.json");

export const openAsyncApi = openDocument<StreamsDocument>("asyncapi.json");

/** Fetches the document while nobody waits for it. */
export const prefetchOpenApi = () => queries.prefetchQuery(openApi);

const digestOf = made((document: ApiDocument) => digest(document, AREAS, BUILT_IN.operations));

/** The operations, scopes and services of the running server. */
export const useDigest = () => useQuery({ ...openApi, select: digestOf }).data ?? BUILT_IN;
