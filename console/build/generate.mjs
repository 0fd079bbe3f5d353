// Writes what the console takes from the platform's documents: the types of the API, its scopes, its operations.
import { readFileSync, writeFileSync } from "node:fs";
import openapi, { astToString } from "openapi-typescript";

const source = new URL("../../docs/api/openapi-persons.json", import.meta.url);
const into = new URL("../src/api/", import.meta.url);
const note = "// Generated from docs/api/openapi-persons.json by `npm run api`. Do not edit.\n\n";

const types = await openapi(source, { defaultNonNullable: false });
writeFileSync(new URL("schema.gen.ts", into), note + astToString(types));

const document = JSON.parse(readFileSync(source, "utf8"));
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    rpc: operation["x-platform-rpc"],
    method: method.toUpperCase(),
    path,
    summary: operation.summary,
    scope: operation.security[0]?.bearer[0] ?? "",
    isPublic: operation["x-platform-public"],
  })),
);
const streams = JSON.parse(readFileSync(new URL("../../docs/api/asyncapi.json", import.meta.url), "utf8"));
for (const [name, message] of Object.entries(streams.components.messages)) {
  // Events have pages of their own, and one example of a call is enough.
  if (name.startsWith("event.")) delete message.payload;
  if (name.startsWith("event.")) delete message.examples;
  message.examples &&= message.examples.slice(0, 1);
}
writeFileSync(new URL("streams.gen.json", into), JSON.stringify(streams));

const used = new Set(operations.map(({ scope }) => scope));
const described = document.components.securitySchemes.bearer.description;
const all = [...described.matchAll(/`([a-z]+:[a-z]+)`: ([^`]+?)(?= `|$)/g)].map(
  ([, name, description]) => ({ name, description }),
);
const scopes = all
  // A scope that opens nothing yet is not offered. Those of tools are asked for beside the API.
  .filter(({ name }) => used.has(name) || name.startsWith("mcp:"));
writeFileSync(
  new URL("document.gen.ts", into),
  `${note}export interface Operation {
  rpc: string;
  method: string;
  path: string;
  summary: string;
  scope: string;
  isPublic: boolean;
}

export const OPERATIONS: readonly Operation[] = ${JSON.stringify(operations, null, 2)};

/** Every scope that only reads. */
export const READ_SCOPES: readonly string[] = ${JSON.stringify(all.map(({ name }) => name).filter((name) => name.endsWith(":read") || name === "account:audit"))};

export const SCOPES: readonly { name: string; description: string }[] = ${JSON.stringify(scopes, null, 2)};
`,
);
