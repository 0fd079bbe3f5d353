/** The platform's documents, as they were when this console was built, which is when the server was. */
import openapi from "../../../docs/api/openapi-persons.json";
import catalogue from "../../../docs/api/events.json";

export interface Schema {
  type?: string | string[];
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  oneOf?: Schema[];
  anyOf?: Schema[];
  allOf?: Schema[];
  $ref?: string;
  examples?: unknown[];
  default?: unknown;
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  additionalProperties?: boolean | Schema;
}

export interface Parameter {
  name: string;
  in: "path" | "query" | "header";
  required: boolean;
  description?: string;
  schema: Schema;
}

export interface Operation {
  rpc: string;
  method: string;
  path: string;
  area: string;
  /** What it does, in a few words. */
  title: string;
  description: string;
  scope: string;
  access: "open" | "token" | "person";
  units: { category: string; units: string } | undefined;
  tool: { name: string; scopes: string[] } | undefined;
  parameters: Parameter[];
  body: { schema: Schema; example: unknown; required: boolean } | undefined;
  answer: Schema | undefined;
  contentType: string;
  statuses: string[];
  list: boolean;
}

interface RawOperation {
  operationId: string;
  summary: string;
  description: string;
  tags: string[];
  parameters: Parameter[];
  requestBody?: { required?: boolean; content: Record<string, { schema: Schema; example?: unknown }> };
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>;
  security: { bearer: string[] }[];
  "x-platform-public": boolean;
  "x-platform-units"?: { category: string; units: string };
  "x-platform-tool"?: { name: string; scopes: string[] };
  "x-platform-list"?: unknown;
}

const schemas: Record<string, Schema> = {};

/** Makes schemas of another document known by their names; what is there already is the same in both. */
export function know(more: Record<string, Schema>) {
  for (const [name, schema] of Object.entries(more)) schemas[name] ??= schema;
}

const document = openapi as unknown as {
  paths: Record<string, Record<string, RawOperation>>;
  components: { schemas: Record<string, Schema> };
  info: { version: string };
};

know(document.components.schemas);

export const VERSION = document.info.version;

export const OPERATIONS: readonly Operation[] = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, raw]) => {
    const body = raw.requestBody?.content["application/json"];
    const [contentType, answer] = Object.entries(raw.responses["200"]?.content ?? {})[0] ?? ["", undefined];
    return {
      rpc: raw.operationId,
      method: method.toUpperCase(),
      path,
      area: raw.tags[0] ?? "",
      // A summary may go on after its first clause, which is enough for a heading.
      title: raw.summary.split(/[,;:] /)[0] ?? raw.summary,
      description: raw.description,
      scope: raw.security[0]?.bearer[0] ?? "",
      access: raw.security.length === 0 ? "open" : raw["x-platform-public"] ? "token" : "person",
      units: raw["x-platform-units"],
      tool: raw["x-platform-tool"],
      parameters: raw.parameters,
      body: body && Object.keys(body.schema.properties ?? {}).length > 0
        ? { schema: body.schema, example: body.example, required: raw.requestBody?.required ?? false }
        : undefined,
      answer: answer?.schema,
      contentType,
      statuses: Object.keys(raw.responses).filter((status) => /^[45]/.test(status)),
      list: raw["x-platform-list"] !== undefined,
    };
  }),
);

export const AREAS: readonly { name: string; title: string }[] = [
  { name: "identity", title: "Identity and keys" },
  { name: "accounts", title: "Accounts and teams" },
  { name: "metering", title: "Units and usage" },
  { name: "webhooks", title: "Webhooks" },
  { name: "events", title: "Events" },
  { name: "platform", title: "Platform" },
  ...[...new Set(OPERATIONS.map(({ area }) => area))]
    .filter((area) => !["identity", "accounts", "metering", "webhooks", "events", "platform"].includes(area))
    .map((name) => ({ name, title: name.charAt(0).toUpperCase() + name.slice(1) })),
];

export const EVENTS = catalogue as unknown as readonly {
  type: string;
  description: string;
  schema: Schema;
  example: unknown;
}[];

export function resolve(schema: Schema): Schema {
  const name = schema.$ref?.split("/").at(-1);
  if (name === undefined) return schema;
  const found = schemas[name] ?? {};
  return { ...found, ...(schema.description !== undefined && { description: schema.description }) };
}

/** The alternatives of a schema, without "or nothing". */
export function alternatives(schema: Schema): Schema[] {
  return (schema.oneOf ?? schema.anyOf ?? []).filter((each) => each.type !== "null").map(resolve);
}

/** What a value of the schema is, in a word or two. */
export function typeWords(given: Schema): string {
  const schema = resolve(given);
  const others = alternatives(schema);
  if (schema.const !== undefined) return "always";
  if (schema.enum ?? others.some((each) => each.const !== undefined || each.enum)) return "one of";
  if (others.length === 1) return typeWords(others[0]!);
  const types = [schema.type ?? []].flat().filter((type) => type !== "null");
  if (types[0] === "array") return `list of ${schema.items ? typeWords(schema.items) : "anything"}`;
  if (schema.format === "date-time") return "time";
  return types.join(" or ") || (schema.properties ? "object" : "anything");
}

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

/** The fields of an object or of the objects in a list. */
export function fieldsOf(given: Schema): [string, Schema, boolean][] {
  const schema = resolve(given);
  const inner = schema.items ? resolve(schema.items) : alternatives(schema).length === 1 ? alternatives(schema)[0]! : schema;
  return Object.entries(inner.properties ?? {}).map(([name, field]) => [name, field, inner.required?.includes(name) ?? false]);
}
