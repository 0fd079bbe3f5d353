/** Reading schemas: what a value is, which values there are, and which fields. */
import type { Schema } from "../api/openapi";

export type { Schema };

/** How many references may lead to the next. */
const HOPS_MAX = 8;
/** How deep lists of lists are told. */
const LISTS_MAX = 4;

/** What each reference leads to. Every document has names of its own, so none is looked up by its name alone. */
const targets = new WeakMap<object, Schema>();

/** What stands at `#/…` below the root. */
function at(root: object, reference: string): unknown {
  const steps = reference.split("/").slice(1).map((step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~"));
  return steps.reduce<unknown>((value, step) => (value as Record<string, unknown> | undefined)?.[step], root);
}

/** Follows the references of a document once. Definitions are also found in the schema around that brings them along. */
export function link(value: unknown, roots: readonly object[] = []) {
  if (typeof value !== "object" || value === null) return;
  const around = roots.length === 0 || "$defs" in value ? [value, ...roots] : roots;
  const reference = "$ref" in value && typeof value.$ref === "string" ? value.$ref : "";
  if (reference.startsWith("#/")) {
    const found = around.map((root) => at(root, reference)).find((target) => target !== undefined);
    if (found !== undefined) targets.set(value, found as Schema);
  }
  for (const inner of Object.values(value)) link(inner, around);
}

/** The schema that a reference leads to, or that it is: the same object wherever it is named. */
export function origin(schema: Schema): Schema {
  let found = schema;
  for (let hops = 0; hops < HOPS_MAX; hops++) found = targets.get(found) ?? found;
  return found;
}

/** The schema itself, with what is said where it is named, and with the fields of all that it is made of. */
export function resolve(schema: Schema, depth = 0): Schema {
  const found = origin(schema);
  const whole = found === schema ? schema : { ...found, ...schema };
  if (!whole.allOf || depth > HOPS_MAX) return whole;
  const parts = [...whole.allOf.map((part) => resolve(part, depth + 1)), { ...whole, allOf: undefined }];
  return {
    ...(Object.assign({}, ...parts) as Schema),
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)) as Record<string, Schema>,
    required: parts.flatMap(({ required = [] }) => required),
  };
}

/** Those of a schema that are not "or nothing", as they stand there. */
const others = (schema: Schema) => (schema.oneOf ?? schema.anyOf ?? []).filter((each) => each.type !== "null");

/** The alternatives of a schema, without "or nothing". */
export const alternatives = (schema: Schema): Schema[] => others(schema).map((each) => resolve(each));

/** What a value of the schema is, in a word or two. */
export function typeWords(given: Schema, depth = 0): string {
  const schema = resolve(given);
  const either = alternatives(schema);
  if (schema.const !== undefined) return "always";
  if (schema.enum ?? either.some((each) => each.const !== undefined || each.enum)) return "one of";
  if (either.length === 1 && depth < LISTS_MAX) return typeWords(either[0]!, depth + 1);
  const types = [schema.type ?? []].flat().filter((type) => type !== "null");
  if (types[0] === "array") return `list of ${schema.items && depth < LISTS_MAX ? typeWords(schema.items, depth + 1) : "anything"}`;
  if (schema.format === "date-time") return "time";
  return types.join(" or ") || (schema.properties ? "object" : "anything");
}

/** Is a value a list? */
export const isList = (schema: Schema) => [resolve(schema).type ?? []].flat().includes("array");

/** The values that there are, if they are few and fixed. */
export function values(given: Schema): { value: string; description: string }[] {
  const schema = resolve(given);
  if (schema.const !== undefined) return [{ value: String(schema.const), description: "" }];
  if (schema.enum) return schema.enum.filter((value) => value !== null).map((value) => ({ value: String(value), description: "" }));
  return alternatives(schema).flatMap((each) =>
    each.const !== undefined
      ? [{ value: String(each.const), description: each.description ?? "" }]
      : (each.enum ?? []).map((value) => ({ value: String(value), description: each.description ?? "" })),
  );
}

/** The object whose fields are told for a schema: itself, what its list holds, or its only alternative. */
export function recordOf(given: Schema): Schema {
  const schema = resolve(given);
  const only = others(schema);
  return origin(schema.items ?? (only.length === 1 ? only[0]! : given));
}

/** The fields of an object or of the objects in a list. */
export function fieldsOf(given: Schema): [string, Schema, boolean][] {
  const record = resolve(recordOf(given));
  return Object.entries(record.properties ?? {}).map(([name, field]) => [name, field, record.required?.includes(name) ?? false]);
}
