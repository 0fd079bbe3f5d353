import { marked } from "marked";
import type { Plugin } from "vite";

/** Turns a guide into HTML when the console is built, so that the browser needs no Markdown. */
export function guides(): Plugin {
  return {
    name: "portico:guides",
    transform(text, id) {
      if (!id.endsWith(".md")) return null;
      const title = /^# (.+)$/m.exec(text)?.[1] ?? "";
      const body = text.replace(/^# .+\n/m, "");
      const html = marked
        .parse(body, { async: false, gfm: true })
        // What scrolls must be reached without a mouse.
        .replaceAll("<pre>", '<pre tabindex="0">');
      return { code: `export default ${JSON.stringify({ title, html })};`, map: null };
    },
  };
}
