import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin, Rolldown } from "vite";

/** What each page of the built console has the browser fetch at once, instead of when one script names the next. */
const PAGES = {
  "index.html": ["/src/app/start.tsx", "/src/app/shell.tsx"],
  "reference.html": ["/src/app/start.tsx", "/src/reference/layout.tsx"],
};

type Chunks = readonly Rolldown.OutputChunk[];

/** The chunk of that module, and all that it cannot do without. */
function closure(chunks: Chunks, module: string): Rolldown.OutputChunk[] {
  const first = chunks.find(({ facadeModuleId }) => facadeModuleId?.endsWith(module));
  if (!first) throw new Error(`${module} is no chunk of its own`);
  const found = new Map<string, Rolldown.OutputChunk>();
  const add = (chunk: Rolldown.OutputChunk | undefined) => {
    if (!chunk || found.has(chunk.fileName)) return;
    found.set(chunk.fileName, chunk);
    for (const name of chunk.imports) add(chunks.find(({ fileName }) => fileName === name));
  };
  add(first);
  return [...found.values()];
}

/** Writes the page once for the console and once for the reference, each with links to the files that it begins with. */
export function preload(): Plugin {
  let folder = "";
  return {
    name: "portico:preload",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    writeBundle(_, bundle) {
      const chunks = Object.values(bundle).filter((each) => each.type === "chunk");
      const page = readFileSync(join(folder, "index.html"), "utf8");
      for (const [name, modules] of Object.entries(PAGES)) {
        const needed = modules.flatMap((module) => closure(chunks, module));
        const scripts = needed.map(({ fileName }) => `<link rel="modulepreload" crossorigin href="/${fileName}">`);
        const styles = needed
          .flatMap(({ viteMetadata }) => [...(viteMetadata?.importedCss ?? [])])
          .map((fileName) => `<link rel="stylesheet" crossorigin href="/${fileName}">`);
        const links = [...new Set([...styles, ...scripts])].filter((link) => !page.includes(/href="[^"]+"/.exec(link)![0]));
        writeFileSync(join(folder, name), page.replace("</head>", `  ${links.join("\n    ")}\n  </head>`));
      }
    },
  };
}
