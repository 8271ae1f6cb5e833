import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { findBuild } from "../_built.ts";

const MODULES = fileURLToPath(new URL("../../node_modules/", import.meta.url));

interface BundleOptions {
  /** Modules that stay imports. @default none */
  readonly external?: readonly string[];
  /** What React takes itself for. @default "production" */
  readonly mode?: "production" | "development";
}

/** Code that imports the package, as a page gets it: for browsers, minified, in one file. */
export async function bundle(
  code: string,
  { external = [], mode = "production" }: BundleOptions = {},
): Promise<string> {
  const dist = join(await findBuild(), "dist");
  const folder = await mkdtemp(join(tmpdir(), "bundle-"));
  try {
    const entry = join(folder, "page.js");
    await writeFile(entry, code);
    await build({
      root: folder,
      configFile: false,
      publicDir: false,
      logLevel: "error",
      define: { "process.env.NODE_ENV": JSON.stringify(mode) },
      resolve: {
        alias: [
          { find: /^agent-control-service\/(.+)$/, replacement: `${dist}/$1.js` },
          ...["react", "react-dom"]
            .filter((name) => !external.includes(name))
            .map((name) => ({ find: new RegExp(`^${name}(?=$|/)`), replacement: join(MODULES, name) })),
        ],
      },
      build: {
        outDir: join(folder, "out"),
        target: "es2022",
        minify: true,
        lib: { entry, formats: ["es"], fileName: () => "bundle.js" },
        rollupOptions: { external: [...external] },
      },
    });
    return await readFile(join(folder, "out/bundle.js"), "utf8");
  } finally {
    await rm(folder, { recursive: true });
  }
}
