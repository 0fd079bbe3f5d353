// The programs of the reference, as its pages make them: the same code, loaded without a browser.
import { resolve } from "node:path";
import { runnerImport } from "vite";

/** The programs' makers, for a server at that address. */
export async function loadExamples(baseUrl) {
  // What the page says of its server stands in its `meta` elements.
  globalThis.document ??= { querySelector: (selector) => ({ content: selector.includes("base-url") ? baseUrl : "" }) };
  const load = async (path) => (await runnerImport(resolve(import.meta.dirname, "../src", path), { logLevel: "error" })).module;
  const { OPERATIONS } = await load("reference/document.ts");
  const { callOf, example } = await load("reference/examples.ts");
  return { OPERATIONS, callOf, example };
}
