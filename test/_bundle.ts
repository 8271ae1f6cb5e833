import { copyFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { compiledTemplates } from "../compile-templates.ts";
import { writeTemplates } from "../write-templates.ts";
import { once } from "./_once.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/**
 * A program of the tests that imports the sources, and packages that it loads by name, each in one file, so that
 * processes start in a third of the time. Resolves with what node runs, once per run.
 */
export async function bundleChild(program: URL, packages: readonly string[] = []): Promise<string> {
  const path = fileURLToPath(program);
  const name = relative(ROOT, path).replaceAll("/", "-");
  const folder = await once(name, (into) => bundle(path, packages, into));
  return join(folder, "package/dist/deploy/child.js");
}

async function bundle(program: string, packages: readonly string[], folder: string): Promise<void> {
  // Modules of two depths look for the package's own files: they are one file here.
  const root = join(folder, "package");
  const dist = join(root, "dist/deploy");
  const peers = packages.map((name) => [`node_modules/${name}/index`, name] as const);
  await build({
    root: ROOT,
    configFile: false,
    publicDir: false,
    logLevel: "error",
    plugins: [compiledTemplates()],
    ssr: { noExternal: true },
    build: {
      ssr: true,
      outDir: dist,
      target: "node20",
      rollupOptions: {
        input: { child: program, ...Object.fromEntries(peers) },
        output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
      },
    },
  });
  const modules = { type: "module", exports: "./index.js" };
  for (const [entry] of peers)
    writeFileSync(join(dist, dirname(entry), "package.json"), JSON.stringify(modules));
  for (const place of [root, folder]) copyFileSync(join(ROOT, "package.json"), join(place, "package.json"));
  for (const place of [root, dirname(dist)]) writeTemplates(join(place, "templates"));
}
