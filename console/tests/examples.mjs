// The programs of the reference, as its pages make them: the same code, loaded without a browser.
import { resolve } from "node:path";
import { runnerImport } from "vite";

/** The operations of the server at that address, and the makers of their programs. */
export async function loadExamples(baseUrl) {
  // What the page says of its server stands in its `meta` elements.
  globalThis.document ??= { querySelector: (selector) => ({ content: selector.includes("base-url") ? baseUrl : "" }) };
  const { module } = await runnerImport(resolve(import.meta.dirname, "reference.ts"), { logLevel: "error" });
  const { withServices, callOf, example } = module;
  const { operations } = withServices(await (await fetch(`${baseUrl}/openapi.json`)).json());
  return { operations, callOf, example };
}
