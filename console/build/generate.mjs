// Writes what the console takes from the platform's documents: the types of the API, its digest, its streams.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import openapi, { astToString } from "openapi-typescript";
import { runnerImport } from "vite";

const documents = new URL("../../docs/api/", import.meta.url);
const into = new URL("../src/api/", import.meta.url);
const note = "// Generated from docs/api by `npm run api`. Do not edit.\n\n";
const write = (name, text) => writeFileSync(new URL(name, into), note + text);
const read = (name) => JSON.parse(readFileSync(new URL(name, documents), "utf8"));

const types = await openapi(new URL("openapi-persons.json", documents), { defaultNonNullable: false });
write("schema.gen.ts", astToString(types));

const streams = read("asyncapi.json");
for (const [name, message] of Object.entries(streams.components.messages)) {
  // Events have pages of their own, and one example of a call is enough.
  if (name.startsWith("event.")) delete message.payload;
  if (name.startsWith("event.")) delete message.examples;
  message.examples &&= message.examples.slice(0, 1);
}
writeFileSync(new URL("streams.gen.json", into), JSON.stringify(streams));

const persons = read("openapi-persons.json");
const areas = [...new Set([persons, read("openapi.json")].flatMap(({ tags }) => tags.map(({ name }) => name)))];
// The same code that reads the running server's document in the browser.
const { digest } = (await runnerImport(fileURLToPath(new URL("digest.ts", into)), { logLevel: "error" })).module;
write(
  "areas.gen.ts",
  `/** The areas of the platform. The name of any other operation begins with its service. */
export const AREAS: readonly string[] = ${JSON.stringify(areas)};
`,
);
write(
  "digest.gen.ts",
  `import type { Digest } from "./digest";

/** The platform alone, as it was when this console was built. */
export const BUILT_IN: Digest = ${JSON.stringify(digest(persons, areas), null, 2)};
`,
);
