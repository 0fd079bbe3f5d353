import { useMutation } from "@tanstack/react-query";
import { api, ask } from "../../../api/client";
import { refresh } from "../refresh";
import type { Connection } from "../words";

/** Ends a grant, once that was confirmed. */
export function useRevoke(of: Connection, onSuccess: () => void) {
  return useMutation({
    mutationFn: (grant_id: string) => {
      const path = { org_id: of.account_id, connection_id: of.id, grant_id };
      return ask(api.DELETE("/v1/accounts/orgs/{org_id}/connections/{connection_id}/grants/{grant_id}", { params: { path } }));
    },
    onSuccess: () => {
      refresh();
      onSuccess();
    },
  });
}
