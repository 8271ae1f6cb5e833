import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

export interface Bundle {
  /** What node runs. */
  readonly path: string;
  remove(): void;
}

/**
 * A program of the tests that imports the deploy engine, and packages that it loads by name, each in one file: hundreds
 * of processes start in a third of the time.
 */
export async function bundleChild(program: URL, packages: readonly string[] = []): Promise<Bundle> {
  const folder = mkdtempSync(join(tmpdir(), "svc-bundle-"));
  // Modules of two depths look for the package's own file, and one of them for the templates: they are one file here.
  const root = join(folder, "package");
  const dist = join(root, "dist/deploy");
  const peers = packages.map((name) => [`node_modules/${name}/index`, name] as const);
  await build({
    root: ROOT,
    configFile: false,
    publicDir: false,
    logLevel: "error",
    ssr: { noExternal: true },
    build: {
      ssr: true,
      outDir: dist,
      target: "node20",
      rollupOptions: {
        input: { child: fileURLToPath(program), ...Object.fromEntries(peers) },
        output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
      },
    },
  });
  const modules = { type: "module", exports: "./index.js" };
  for (const place of [root, folder]) copyFileSync(join(ROOT, "package.json"), join(place, "package.json"));
  for (const [entry] of peers)
    writeFileSync(join(dist, dirname(entry), "package.json"), JSON.stringify(modules));
  for (const place of [root, folder]) symlinkSync(join(ROOT, "templates"), join(place, "templates"));
  return { path: join(dist, "child.js"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
