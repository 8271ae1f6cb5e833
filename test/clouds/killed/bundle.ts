import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";

const ROOT = fileURLToPath(new URL("../../..", import.meta.url));
const AWS = ["apprunner", "cloudwatch-logs", "ecr", "ecs", "iam", "secrets-manager", "sts"];
const PEERS = ["google-auth-library", ...AWS.map((name) => `@aws-sdk/client-${name}`)];

/** The child and the clouds' packages, each in one file: hundreds of children start in a third of the time. */
export async function bundleChild(): Promise<{ readonly path: string; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), "svc-killed-"));
  // Modules of two depths look for the package's own file, and one of them for the templates: they are one file here.
  const root = join(folder, "package");
  const dist = join(root, "dist/deploy");
  const peers = PEERS.map((name) => [`node_modules/${name}/index`, name] as const);
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
        input: { child: fileURLToPath(new URL("child.ts", import.meta.url)), ...Object.fromEntries(peers) },
        output: { entryFileNames: "[name].js", chunkFileNames: "[name]-[hash].js" },
      },
    },
  });
  const modules = { type: "module", exports: "./index.js" };
  for (const place of [root, folder]) copyFileSync(join(ROOT, "package.json"), join(place, "package.json"));
  for (const [entry] of peers)
    writeFileSync(join(dist, dirname(entry), "package.json"), JSON.stringify(modules));
  symlinkSync(join(ROOT, "templates"), join(folder, "templates"));
  return { path: join(dist, "child.js"), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
