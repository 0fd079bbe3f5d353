/** When a verified domain ends whose record is missed. */
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "../../../api/client";
import { useOrg, useWorkplace } from "../../../app/account";
import type { Domain } from "../words";

/**
 * The audit log says so, in the entry of the first look that missed the record. It can only be read forwards, so the entry is found by the
 * event that tells of the one before it.
 */
export function useGraceEnd(of: Domain): string | undefined {
  const org_id = useOrg();
  const { may } = useWorkplace();
  const inGrace = of.status === "verified" && of.unverified_reason !== "";
  const end = useQuery({
    queryKey: ["domain", org_id, of.domain, "grace", of.unverified_reason],
    enabled: inGrace && may("admin"),
    queryFn: async () => {
      const path = { org_id };
      const query = { type: "audit.event", page_size: 200 };
      const { events } = await ask(api.GET("/v1/accounts/orgs/{org_id}/events", { params: { path, query } }));
      for (const [at, { data }] of events.entries()) {
        const before = events[at + 1]?.data as Record<string, string> | undefined;
        if ((data as Record<string, string>).action !== "domain.missing" || !before?.audit_event_id) continue;
        const after = { after: before.audit_event_id, page_size: 1 };
        const { entries } = await ask(api.GET("/v1/accounts/orgs/{org_id}/audit", { params: { path, query: after } }));
        const [entry] = entries;
        if (entry?.target === of.domain) return String((entry.metadata as Record<string, unknown>).ends_at ?? "");
      }
      return "";
    },
    staleTime: 60_000,
  });
  return end.data || undefined;
}
