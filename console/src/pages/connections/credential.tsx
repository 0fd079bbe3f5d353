/** The part of a form that is about how a connection proves who it is: its configuration, and a credential or a sign-in. */
import type { Refusal } from "../../api/problem";
import { Choice, Note } from "../../ui/kit";
import { OwnClient } from "./client";
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

export function ProofFields({
  kind,
  value,
  onChange,
  refusal,
  needsClient,
  forget,
}: {
  kind: Kind;
  value: Proof;
  onChange: (value: Proof) => void;
  refusal: Refusal | undefined;
  /** Can nobody sign in before the account brings an OAuth client? */
  needsClient: boolean;
  /** Forgets the refusal of a sign-in. */
  forget: () => void;
}) {
  const change = (next: Proof) => {
    onChange(next);
    // There may be a client for another host.
    if (needsClient) forget();
  };
  const modes = modesOf(kind);
  const config = configOf(kind, value.config);
  const configFields = (fields: FieldDefinition[]) => (
    <DefinedFields
      fields={fields}
      values={value.config}
      onChange={(changed) => change({ ...value, config: changed })}
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
            onChange={(mode) => change({ ...value, mode, credential: {} })}
          />
        </fieldset>
      )}
      {configFields(config.filter(isFirst))}
      <CredentialFields
        fields={credentialOf(kind, value)}
        values={value.credential}
        onChange={(credential) => change({ ...value, credential })}
        fault={(name) => refusal?.field(`${secretField}${name}`)}
      />
      {configFields(config.filter((field) => !isFirst(field)))}
      {needsClient && <OwnClient kind={kind} onSet={forget} />}
      {value.mode === SIGN_IN && !needsClient && <Note tone="accent">You go to {kind.title}, allow it there, and come back here.</Note>}
    </>
  );
}
