import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { api, ask, type Schemas } from "../../api/client";
import type { Operation } from "../../api/digest";
import type { paths } from "../../api/schema.gen";
import { asRefusal } from "../../api/problem";
import { queries, useKeys } from "../../api/queries";
import { useOrg } from "../../app/account";
import { useDigest } from "../../app/digest";
import { curl, exchange } from "../../ui/curl";
import { LIVES } from "../../ui/lives";
import { Choice, Code, Dialog, Field, Form, Note, SecretDialog } from "../../ui/kit";
import { type Chosen, chosenScopes } from "./presets";
import { ScopePicker } from "./scopes";
import { keyState } from "./state";

type NewToken = paths["/v1/accounts/orgs/{org_id}/tokens"]["post"]["requestBody"]["content"]["application/json"];

type Kind = "token" | "key";
type Made = { kind: Kind; key: Schemas["Key"]; secret: string };

/** A read that these scopes allow, and that needs nothing but the token. */
function firstCall(operations: readonly Operation[], scopes: readonly string[], org: string): string {
  const preferred = ["identity.me.get", "accounts.me.get", "webhooks.endpoints.list", "metering.units.get", "events.types.list"];
  const found = preferred
    .map((rpc) => operations.find((each) => each.rpc === rpc))
    .find((each) => each?.scopes.some((list) => list.every((scope) => scopes.includes(scope))));
  return (found?.path ?? "/v1/openapi.json").replace("{org_id}", org);
}

function MadeDialog({ made, onClose }: { made: Made; onClose: () => void }) {
  const org = useOrg();
  const { operations } = useDigest();
  const path = firstCall(operations, made.key.scopes, org);
  const toolsOnly = made.key.scopes.every((scope) => scope.startsWith("mcp:"));
  return made.kind === "token" ? (
    <SecretDialog open onClose={onClose} title={`The token ${made.key.name || "is made"}`} secret={made.secret} label="Token">
      {!toolsOnly && <Code label="Try it: paste this into a terminal" text={curl("GET", path, made.secret)} wrap />}
    </SecretDialog>
  ) : (
    <SecretDialog open onClose={onClose} title={`The key ${made.key.name || "is made"}`} secret={made.secret} label="Client secret">
      <Code label="Client id" text={made.key.client_id} wrap />
      <Code
        label="Exchange it for a token of 15 minutes"
        text={exchange(made.key.client_id, made.secret, made.key.scopes)}
        wrap
      />
    </SecretDialog>
  );
}

/** What a key can be made below: whatever stands. */
function useAbove() {
  const keys = useKeys("keys");
  const tokens = useKeys("tokens");
  return [...(keys.data ?? []), ...(tokens.data ?? [])].filter((key) => keyState(key) === "active");
}

export function CreateDialog({ kind, onClose }: { kind: Kind; onClose: () => void }) {
  const org_id = useOrg();
  const [name, setName] = useState("");
  const [days, setDays] = useState<(typeof LIVES)[number][0]>("30");
  const [chosen, setChosen] = useState<Chosen>("read");
  const scopes = chosenScopes(chosen, useDigest());
  const [parent, setParent] = useState("");
  const [made, setMade] = useState<Made | null>(null);
  const above = useAbove();
  const make = useMutation({
    mutationFn: async (): Promise<Made> => {
      const params = { path: { org_id } };
      // The types know the platform's scopes alone, and the services' are offered by the server's own document.
      const common = { name, scopes: [...scopes] as NewToken["scopes"] };
      if (kind === "token") {
        const body = { ...common, days: Number(days) as NewToken["days"] };
        const answer = await ask(api.POST("/v1/accounts/orgs/{org_id}/tokens", { params, body }));
        return { kind, key: answer.key, secret: answer.token };
      }
      const answer = await ask(api.POST("/v1/accounts/orgs/{org_id}/keys", { params, body: { ...common, ...(parent && { parent }) } }));
      return { kind, key: answer.key, secret: answer.client_secret };
    },
    onSuccess: (answer) => {
      setMade(answer);
      void queries.invalidateQueries({ queryKey: [`${kind}s`] });
    },
  });
  if (made) return <MadeDialog made={made} onClose={onClose} />;
  const refusal = make.error ? asRefusal(make.error) : undefined;
  return (
    <Dialog open onClose={onClose} title={kind === "token" ? "Make a token" : "Make a key"} keep={name !== ""} wide>
      <Form
        onSubmit={() => make.mutate()}
        error={make.error}
        busy={make.isPending}
        submit={kind === "token" ? "Make the token" : "Make the key"}
        onCancel={onClose}
        disabled={scopes.length === 0}
      >
        <Note>
          {kind === "token"
            ? "A token is one text that a program sends with each call. It ends by itself."
            : "A key is a client id and a secret. A server exchanges them for tokens of 15 minutes, so what travels is short-lived. It has no end."}
        </Note>
        <Field label="Name" hint="To know it by, such as the program or the place where it is used." error={refusal?.field("name")}>
          {(control) => (
            <input {...control} value={name} maxLength={100} onChange={(event) => setName(event.target.value)} autoFocus autoComplete="off" />
          )}
        </Field>
        {kind === "token" && (
          <fieldset className="field">
            <legend>How long it lives</legend>
            <Choice label="How long it lives" value={days} options={LIVES} onChange={setDays} />
          </fieldset>
        )}
        {kind === "key" && above.length > 0 && (
          <Field label="Below" hint="A key below another may do no more than that one, and ends with it." error={refusal?.field("parent")}>
            {(control) => (
              <select {...control} value={parent} onChange={(event) => setParent(event.target.value)}>
                <option value="">Nothing: it stands by itself</option>
                {above.map(({ id, name, kind: what }) => (
                  <option key={id} value={id}>
                    {`${what} ${name || id}`}
                  </option>
                ))}
              </select>
            )}
          </Field>
        )}
        <ScopePicker value={chosen} onChange={setChosen} error={refusal?.field("scopes")} />
      </Form>
    </Dialog>
  );
}
