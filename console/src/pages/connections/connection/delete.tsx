import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { api, ask } from "../../../api/client";
import { plural } from "../../../ui/format";
import { Button, Confirm, Dialog, Note } from "../../../ui/kit";
import { refresh } from "../refresh";
import type { Connection } from "../words";

/** Asks, deletes, and says where the provider may still take the credential. */
export function Delete({ of, onBegin, onFail, onClose }: { of: Connection; onBegin: () => void; onFail: () => void; onClose: () => void }) {
  const navigate = useNavigate();
  const leave = async () => {
    await navigate({ to: "/connections" });
    refresh();
  };
  const remove = useMutation({
    mutationFn: () => {
      const params = { path: { org_id: of.account_id, connection_id: of.id } };
      return ask(api.DELETE("/v1/accounts/orgs/{org_id}/connections/{connection_id}", { params }));
    },
    onMutate: onBegin,
    onError: onFail,
    onSuccess: async ({ upstream }) => {
      if (upstream !== "failed") await leave();
    },
  });
  if (remove.data) {
    return (
      <Dialog open onClose={() => void leave()} title="The connection is deleted">
        <Note tone="warn">
          The provider was asked to end the credential, and did not say that it has. End it there yourself, in the settings of{" "}
          <strong>{of.label || of.name}</strong>.
        </Note>
        <div className="form-actions">
          <Button look="primary" onClick={() => void leave()}>
            Done
          </Button>
        </div>
      </Dialog>
    );
  }
  return (
    <Confirm
      open
      onClose={onClose}
      title="Delete the connection?"
      submit="Delete the connection"
      onSubmit={() => remove.mutate()}
      busy={remove.isPending}
      error={remove.error}
      {...(of.grants > 0 && { name: of.name })}
    >
      <p>
        Its credential is deleted here, and ended at the provider where that can be done.{" "}
        {of.grants > 0 && `${plural(of.grants, "grant ends", "grants end")} with it, and the programs that have them are refused at once. `}
        Its history stays.
      </p>
    </Confirm>
  );
}
