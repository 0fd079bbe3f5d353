import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";
import { compress } from "./build/compress.ts";
import { guides } from "./build/guides.ts";
import { preload } from "./build/preload.ts";

export default defineConfig({
  plugins: [react(), guides(), preload(), compress()],
  build: {
    target: "es2023",
    // The plugin empties it, and leaves the file that keeps the folder in the repository.
    emptyOutDir: false,
    // The policy of the console's address allows no file within a file.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  server: { port: 8082, fs: { allow: [".."] } },
});
