/** Forms that are made from the definitions of fields in the catalogue. */
import { Field } from "../../ui/kit";
import { type CredentialField, type FieldDefinition, titled } from "./words";

/** What is typed, by the names of the fields; what is empty is not given. */
export type Values = Record<string, string>;

/** The values that are given. */
export const given = (values: Values): Values => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));

/** The defaults of fields with choices; those of others count by themselves where nothing is typed. */
export const defaults = (fields: readonly FieldDefinition[]): Values =>
  given(Object.fromEntries(fields.filter((of) => choicesOf(of).length > 0).map(({ name, default_value }) => [name, default_value])));

const JSON_TYPES = new Set(["object", "array", "any"]);
/** A text that may be longer has a field of several lines. */
const LINE_MAX = 1000;

type Control = { id: string; "aria-describedby": string | undefined; "aria-invalid": true | undefined };
type Input = { of: FieldDefinition; value: string; onChange: (value: string) => void };

function choicesOf({ choices, type }: FieldDefinition): readonly string[] {
  return type === "boolean" ? ["true", "false"] : choices;
}

function Control({ of, value, onChange, ...control }: Input & Control) {
  const options = choicesOf(of);
  if (options.length > 0) {
    return (
      <select {...control} required={of.required} value={value} onChange={(event) => onChange(event.target.value)}>
        {!(of.required && of.default_value) && <option value="">{of.required ? "Choose one" : "Not given"}</option>}
        {options.map((option) => (
          <option key={option}>{option}</option>
        ))}
      </select>
    );
  }
  const common = { ...control, required: of.required, value, autoComplete: "off", spellCheck: false, placeholder: of.default_value };
  if (of.type === "integer" || of.type === "number") {
    const bounds = { min: of.min || undefined, max: of.max || undefined, step: of.type === "integer" ? 1 : "any" };
    return <input {...common} {...bounds} type="number" onChange={(event) => onChange(event.target.value)} />;
  }
  const isJson = JSON_TYPES.has(of.type);
  // Of a list they count the items.
  const length = isJson ? {} : { minLength: Number(of.min) || undefined, maxLength: Number(of.max) || undefined };
  if (isJson || Number(of.max) > LINE_MAX) {
    return (
      <textarea
        {...common}
        {...length}
        className={isJson ? "mono" : undefined}
        rows={3}
        placeholder={of.type === "array" ? "[]" : of.type === "object" ? "{}" : common.placeholder}
        onChange={(event) => onChange(event.target.value)}
      />
    );
  }
  return <input {...common} {...length} onChange={(event) => onChange(event.target.value)} />;
}

/** Fields by their definitions. `fault` says what is wrong with the one of that name. */
export function DefinedFields({
  fields,
  values,
  onChange,
  fault,
}: {
  fields: readonly FieldDefinition[];
  values: Values;
  onChange: (values: Values) => void;
  fault: (name: string) => string | undefined;
}) {
  return fields.map((of) => (
    <Field
      key={of.name}
      label={titled(of.name)}
      hint={
        <>
          {of.description}
          {!of.required && !of.default_value && " Optional."}
          {JSON_TYPES.has(of.type) && " As JSON."}
        </>
      }
      error={fault(of.name)}
    >
      {(control) => <Control {...control} of={of} value={values[of.name] ?? ""} onChange={(value) => onChange({ ...values, [of.name]: value })} />}
    </Field>
  ));
}

/** The fields of a credential. What is secret is not shown while it is typed. */
export function CredentialFields({
  fields,
  values,
  onChange,
  fault,
}: {
  fields: readonly CredentialField[];
  values: Values;
  onChange: (values: Values) => void;
  fault: (name: string) => string | undefined;
}) {
  return fields.map(({ name, title, about, look }) => (
    <Field key={name} label={title} hint={about} error={fault(name)}>
      {(control) => {
        const common = { ...control, required: true, value: values[name] ?? "", autoComplete: "off", spellCheck: false };
        const change = (value: string) => onChange({ ...values, [name]: value });
        return look === "lines" ? (
          <textarea {...common} className="mono" rows={4} placeholder="-----BEGIN PRIVATE KEY-----" onChange={(event) => change(event.target.value)} />
        ) : (
          <input {...common} type={look === "secret" ? "password" : "text"} onChange={(event) => change(event.target.value)} />
        );
      }}
    </Field>
  ));
}

export type Parsed = { params: Record<string, unknown>; faults: Record<string, string> };

/** The value that a text stands for; throws a sentence where it stands for none. */
function parsed(type: string, text: string): unknown {
  if (type === "boolean") return text === "true";
  if (type === "integer" || type === "number") {
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Error("This is not a number.");
    if (type === "integer" && !Number.isSafeInteger(value)) throw new Error("A browser cannot send a whole number this large exactly.");
    return value;
  }
  if (!JSON_TYPES.has(type)) return text;
  const value = json(text);
  if (type === "array" && !Array.isArray(value)) throw new Error('This must be a list, such as ["one", "two"].');
  if (type === "object" && (typeof value !== "object" || value === null || Array.isArray(value))) throw new Error('This must be an object, such as {"name": 1}.');
  return value;
}

function json(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error("This is not JSON.");
  }
}

/** The parameters that the texts stand for, and what is wrong with those that stand for none. */
export function parse(fields: readonly FieldDefinition[], values: Values): Parsed {
  const read: Parsed = { params: {}, faults: {} };
  for (const { name, type } of fields) {
    const text = values[name] ?? "";
    if (text === "") continue;
    try {
      read.params[name] = parsed(type, text);
    } catch (error) {
      read.faults[name] = (error as Error).message;
    }
  }
  return read;
}
