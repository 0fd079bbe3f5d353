/**
 * The documents of the running server. They know the services behind it, which those that were built in cannot. The
 * built-in ones are shown at once, and stay where the server's cannot be had.
 */
import { queryOptions } from "@tanstack/react-query";
import { config } from "../config";
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

/** The document at that path. The server is asked for what is newer than the version that is here. */
export function documentAt<D>(path: string, send: (request: Request) => Promise<Response>) {
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

/** What is made of a document, made once. A document that nothing can be made of counts as one that could not be had. */
export function made<D extends object, T>(make: (document: D) => T): (of: Versioned<D>) => T {
  const kept = new WeakMap<D, { it: T }>();
  return ({ document }) => {
    const found = kept.get(document) ?? { it: make(document) };
    kept.set(document, found);
    return found.it;
  };
}
