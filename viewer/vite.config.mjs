// Builds one script and one style sheet into the Python package, the same bytes every time.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "../appl/tracing/viewer",
    emptyOutDir: false,
    target: "es2022",
    cssTarget: "chrome123",
    sourcemap: false,
    lib: {
      entry: "src/main.ts",
      formats: ["iife"],
      name: "applViewer",
      fileName: () => "viewer.js",
      cssFileName: "viewer",
    },
  },
});
