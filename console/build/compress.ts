import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

/** The most that the script of the first page may weigh, compressed with gzip. */
const FIRST_SCRIPT_BYTES_MAX = 200_000;

function files(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });
}

/** Empties the folder of the last build, but for the file that keeps the folder itself in the repository. */
function empty(folder: string) {
  for (const name of readdirSync(folder)) {
    if (name !== ".gitignore") rmSync(join(folder, name), { recursive: true });
  }
}

/** The scripts that the page loads before anybody has clicked anything. */
function firstScripts(page: string): string[] {
  return [...new Set([...page.matchAll(/(?:src|href)="(\/assets\/[^"]+\.js)"/g)].map((match) => match[1]!))];
}

/** Compresses each file once, so that the server never has to, and refuses a first page that is too heavy. */
export function compress(): Plugin {
  let folder = "";
  return {
    name: "portico:compress",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir);
    },
    buildStart() {
      empty(folder);
    },
    closeBundle() {
      for (const path of files(folder)) {
        if (!/\.(js|css|svg|json|txt)$/.test(path)) continue;
        const bytes = readFileSync(path);
        const brotli = brotliCompressSync(bytes, {
          params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length },
        });
        const gzip = gzipSync(bytes, { level: 9 });
        if (brotli.length < bytes.length) writeFileSync(`${path}.br`, brotli);
        if (gzip.length < bytes.length) writeFileSync(`${path}.gz`, gzip);
      }
      for (const name of ["index.html", "reference.html"]) {
        const page = readFileSync(join(folder, name), "utf8");
        const scripts = firstScripts(page).map((path) => gzipSync(readFileSync(join(folder, path)), { level: 9 }).length);
        const size = scripts.reduce((sum, each) => sum + each, 0);
        console.log(`script of ${name}: ${(size / 1000).toFixed(1)} kB gzipped, at most ${FIRST_SCRIPT_BYTES_MAX / 1000}`);
        if (size > FIRST_SCRIPT_BYTES_MAX) throw new Error(`the script of ${name} is too heavy`);
      }
    },
  };
}
