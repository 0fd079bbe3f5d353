/** What pages ask for more than once. A key begins with the kind of thing and its account, so that events can refresh it. */
import { QueryClient, keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useOrg } from "../app/account";
import { api, ask, type Schemas } from "./client";
import { onReachable, isReachable } from "./connectivity";
import { asRefusal } from "./problem";

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 5_000,
      gcTime: 10 * 60_000,
      networkMode: "always",
      // What did not answer is asked again when something answers; what was refused would be refused again.
      retry: (count, error) => count < 2 && (asRefusal(error).isOffline || asRefusal(error).status >= 500),
      retryDelay: (count) => 400 * 2 ** count,
      refetchOnWindowFocus: true,
    },
    mutations: { networkMode: "always", retry: false },
  },
});

onReachable(() => {
  if (isReachable()) void queries.invalidateQueries();
});

/** What pages ask for about connections. */
export const ABOUT_CONNECTIONS: readonly string[] = ["connections", "connection", "grants", "uses"];

/** Whatever an event may have changed is asked for again. */
export function refreshAfter(type: string, action: string) {
  const kinds = [
    ...(/^(key|token)\./.test(action || type) ? ["keys", "tokens"] : []),
    ...(/^(webhook|endpoint|delivery|inbox)/.test(action || type) ? ["endpoints", "endpoint", "deliveries", "inbox"] : []),
    ...(/^(member|invitation)/.test(action || type) ? ["members", "invitations", "me"] : []),
    ...(/^domain\./.test(action || type) ? ["domains", "domain"] : []),
    ...(/^(connection|grant)\./.test(action || type) ? ABOUT_CONNECTIONS : []),
    ...(/^account/.test(action) ? ["me"] : []),
    ...(type === "audit.event" ? ["audit"] : []),
    ...(type.startsWith("usage") ? ["units"] : []),
  ];
  for (const kind of kinds) void queries.invalidateQueries({ queryKey: [kind] });
}

interface Page {
  next_page_token: string;
}

/** A list, page by page. Only while nobody has gone further down is it looked at again by itself, since that asks for every page. */
export function useList<P extends Page>(
  key: readonly unknown[],
  page: (pageToken: string | undefined) => Promise<P>,
  options: { refetchInterval?: number | false; enabled?: boolean } = {},
) {
  return useInfiniteQuery({
    queryKey: key,
    queryFn: ({ pageParam }) => page(pageParam || undefined),
    initialPageParam: "",
    getNextPageParam: (last) => last.next_page_token || undefined,
    placeholderData: keepPreviousData,
    ...options,
    refetchInterval: ({ state }) => ((state.data?.pages.length ?? 0) > 1 ? false : (options.refetchInterval ?? false)),
  });
}

export function useKeys(kind: "keys" | "tokens", enabled = true) {
  const org_id = useOrg();
  return useQuery({
    queryKey: [kind, org_id],
    enabled,
    queryFn: async () => {
      const query = { page_size: 200 };
      const params = { path: { org_id }, query };
      if (kind === "keys") return (await ask(api.GET("/v1/accounts/orgs/{org_id}/keys", { params }))).keys;
      return (await ask(api.GET("/v1/accounts/orgs/{org_id}/tokens", { params }))).tokens;
    },
  });
}

export function useUnits() {
  const org_id = useOrg();
  return useQuery({
    queryKey: ["units", org_id],
    queryFn: () => ask(api.GET("/v1/accounts/orgs/{org_id}/units", { params: { path: { org_id } } })),
    refetchInterval: 60_000,
  });
}

export function useSeries(by: "day" | "hour" | "category" | "key" | "rpc", from: string, to: string) {
  const org_id = useOrg();
  return useQuery({
    queryKey: ["series", org_id, by, from, to],
    placeholderData: keepPreviousData,
    queryFn: () =>
      ask(api.GET("/v1/accounts/orgs/{org_id}/units/series", { params: { path: { org_id }, query: { by, from, to } } })),
    refetchInterval: 60_000,
  });
}

export function useEndpoints() {
  const account_id = useOrg();
  return useQuery({
    queryKey: ["endpoints", account_id],
    queryFn: async () => {
      const params = { query: { account_id, page_size: 200 } };
      return (await ask(api.GET("/v1/webhooks/endpoints", { params }))).endpoints;
    },
    refetchInterval: 30_000,
  });
}

export function useInbox(options: { refetchInterval?: number | false } = {}) {
  const account_id = useOrg();
  return useQuery({
    queryKey: ["inbox", account_id],
    queryFn: async () => (await ask(api.GET("/v1/webhooks/inboxes", { params: { query: { account_id } } }))).inboxes[0] ?? null,
    ...options,
  });
}

/** The account's connections, newest first. */
export function useConnections() {
  const org_id = useOrg();
  const list = useList(
    ["connections", org_id],
    (page_token) => ask(api.GET("/v1/accounts/orgs/{org_id}/connections", { params: { path: { org_id }, query: { page_token, page_size: 200 } } })),
    { refetchInterval: 30_000 },
  );
  return { list, connections: list.data?.pages.flatMap(({ connections }) => connections) ?? [] };
}

/** Everything that can be connected, by name. */
export function useKinds() {
  const account_id = useOrg();
  return useQuery({
    queryKey: ["kinds", account_id],
    staleTime: 5 * 60_000,
    queryFn: async () => (await ask(api.GET("/v1/connections/kinds", { params: { query: { account_id, page_size: 200 } } }))).kinds,
  });
}

export function useEventTypes() {
  return useQuery({
    queryKey: ["event-types"],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async () => {
      const types: Schemas["EventType"][] = [];
      let page_token: string | undefined;
      // Services may bring many.
      do {
        const page = await ask(api.GET("/v1/events/types", { params: { query: { page_size: 200, page_token } } }));
        types.push(...page.types);
        page_token = page.next_page_token || undefined;
      } while (page_token !== undefined);
      return types;
    },
  });
}

export function useMembers() {
  const org_id = useOrg();
  return useQuery({
    queryKey: ["members", org_id],
    queryFn: async () => {
      const params = { path: { org_id }, query: { page_size: 200 } };
      return (await ask(api.GET("/v1/accounts/orgs/{org_id}/members", { params }))).members;
    },
  });
}
