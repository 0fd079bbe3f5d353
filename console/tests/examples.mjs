// The programs of the reference, as its pages make them: the same code, loaded without a browser.
import { resolve } from "node:path";
import { runnerImport } from "vite";

/** What the reference tells, and the makers of its programs, which call the server at that address. */
export async function loadExamples(baseUrl) {
  // What the page says of its server stands in its `meta` elements.
  globalThis.document ??= { querySelector: (selector) => ({ content: selector.includes("base-url") ? baseUrl : "" }) };
  const { module } = await runnerImport(resolve(import.meta.dirname, "reference.ts"), { logLevel: "error" });
  return module;
}
