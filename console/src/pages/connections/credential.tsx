/** The part of a form that is about how a connection proves who it is: its configuration, and a credential or a sign-in. */
import { useQuery } from "@tanstack/react-query";
import { api, ask } from "../../api/client";
import type { Refusal } from "../../api/problem";
import { useOrg } from "../../app/account";
import { Choice, Note } from "../../ui/kit";
import { NoClient } from "./advice";
import { CredentialFields, DefinedFields, given, type Values } from "./fields";
import { CREDENTIALS, type FieldDefinition, type Kind, MODES, OWN_SERVICE, SIGN_IN } from "./words";

/** What is typed of it. */
export interface Proof {
  mode: string;
  config: Values;
  credential: Values;
}

export const modesOf = ({ auth }: Kind): string[] => auth.split(" ");

/** The body of a call that makes or changes a connection of that kind. */
export function proofBody(kind: Kind, { mode, config, credential }: Proof) {
  const body = { config: given(config) };
  if (Object.keys(given(credential)).length === 0) return body;
  return kind.name === OWN_SERVICE ? { ...body, secret: credential.secret } : { ...body, auth_mode: mode, credentials: given(credential) };
}

/** The fields that count with what is chosen in the others. */
const configOf = ({ name, config }: Kind, values: Values) =>
  name === OWN_SERVICE && values.auth !== "header" ? config.filter((field) => field.name !== "header_name") : config;

/** Says where to go, or does much by itself: such a field comes before the credential, and what may simply be left out after it. */
const isFirst = ({ required, default_value }: FieldDefinition) => required || default_value !== "";

const credentialOf = ({ name }: Kind, { mode, config }: Proof) =>
  name === OWN_SERVICE && config.auth === "none" ? [] : (CREDENTIALS[mode] ?? []);

/** Can anybody sign in at the connector? Only where there is an OAuth client for it; what is not known yet is taken for a yes. */
function useHasClient(connector: string, enabled: boolean): boolean {
  const org_id = useOrg();
  const found = useQuery({
    queryKey: ["connector", org_id, connector],
    enabled,
    queryFn: () => ask(api.GET("/v1/accounts/orgs/{org_id}/connections/connectors/{connector}", { params: { path: { org_id, connector } } })),
  });
  return found.data?.connector.client.source !== "none";
}

export function ProofFields({
  kind,
  value,
  onChange,
  refusal,
}: {
  kind: Kind;
  value: Proof;
  onChange: (value: Proof) => void;
  refusal: Refusal | undefined;
}) {
  const modes = modesOf(kind);
  const isSignIn = value.mode === SIGN_IN;
  const hasClient = useHasClient(kind.name, isSignIn);
  const config = configOf(kind, value.config);
  const configFields = (fields: FieldDefinition[]) => (
    <DefinedFields
      fields={fields}
      values={value.config}
      onChange={(changed) => onChange({ ...value, config: changed })}
      fault={(name) => refusal?.field(`config.${name}`)}
    />
  );
  const secretField = kind.name === OWN_SERVICE ? "" : "credentials.";
  return (
    <>
      {modes.length > 1 && (
        <fieldset className="field">
          <legend>Authentication</legend>
          <Choice
            label="Authentication"
            value={value.mode}
            options={modes.map((mode) => [mode, MODES[mode] ?? mode] as const)}
            onChange={(mode) => onChange({ ...value, mode, credential: {} })}
          />
        </fieldset>
      )}
      {configFields(config.filter(isFirst))}
      <CredentialFields
        fields={credentialOf(kind, value)}
        values={value.credential}
        onChange={(credential) => onChange({ ...value, credential })}
        fault={(name) => refusal?.field(`${secretField}${name}`)}
      />
      {configFields(config.filter((field) => !isFirst(field)))}
      {isSignIn && (hasClient ? <Note tone="accent">You go to {kind.title}, allow it there, and come back here.</Note> : <NoClient />)}
    </>
  );
}
