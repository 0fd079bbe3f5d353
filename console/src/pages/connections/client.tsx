/** The OAuth client by which people of the account sign in at a provider. */
import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask } from "../../api/client";
import { asRefusal, type Refusal } from "../../api/problem";
import { queries } from "../../api/queries";
import { useOrg } from "../../app/account";
import { config } from "../../config";
import { Button, Code, ErrorNote, Field } from "../../ui/kit";
import { type Kind, SIGN_IN } from "./words";

const keyOf = (org_id: string, connector: string) => ["connector", org_id, connector];

/** Does a sign-in at the connector still want a client of the account's own? The operator's is not there for every host. */
export function useNeedsClient({ name: connector }: Kind, mode: string, refusal: Refusal | undefined): boolean {
  const org_id = useOrg();
  const found = useQuery({
    queryKey: keyOf(org_id, connector),
    enabled: mode === SIGN_IN,
    queryFn: () => ask(api.GET("/v1/accounts/orgs/{org_id}/connections/connectors/{connector}", { params: { path: { org_id, connector } } })),
  });
  const source = found.data?.connector.client.source;
  return mode === SIGN_IN && (source === "none" || (source === "operator" && refusal?.reason === "NO_CLIENT"));
}

/** The fields of the account's own client. They stand in another form, so they are sent by a button of their own. */
export function OwnClient({ kind, onSet }: { kind: Kind; onSet: () => void }) {
  const org_id = useOrg();
  const [client_id, setId] = useState("");
  const [client_secret, setSecret] = useState("");
  const save = useMutation({
    mutationFn: () => {
      const params = { path: { org_id, connector: kind.name } };
      return ask(api.PUT("/v1/accounts/orgs/{org_id}/connections/connectors/{connector}/client", { params, body: { client_id, client_secret } }));
    },
    onSuccess: (answer) => {
      queries.setQueryData(keyOf(org_id, kind.name), answer);
      onSet();
    },
  });
  const refusal = save.error ? asRefusal(save.error) : undefined;
  return (
    <fieldset className="field own-client">
      <legend>OAuth client</legend>
      <p>
        Signing in takes an OAuth client. Make one at {kind.title} with the redirect address below, and enter its id and secret here. The secret
        is sealed, and the client is used for this account alone.
      </p>
      <Code label="Redirect address" text={`${config.consoleUrl}/connections/callback`} wrap />
      <Field label="Client id" error={refusal?.field("client_id")}>
        {(control) => <input {...control} value={client_id} maxLength={512} autoComplete="off" spellCheck={false} onChange={(event) => setId(event.target.value)} />}
      </Field>
      <Field label="Client secret" error={refusal?.field("client_secret")}>
        {(control) => <input {...control} type="password" value={client_secret} autoComplete="off" onChange={(event) => setSecret(event.target.value)} />}
      </Field>
      <ErrorNote error={save.error} />
      <Button busy={save.isPending} disabled={client_id === "" || client_secret === ""} onClick={() => save.mutate()}>
        Save the client
      </Button>
    </fieldset>
  );
}
