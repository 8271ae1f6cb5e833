import { execFile } from "node:child_process";
import { readdirSync, statSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { once } from "./_once.ts";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The package as users get it: built, in a folder of its own that is removed at the end. */
export interface BuiltPackage extends AsyncDisposable {
  readonly folder: string;
  /** The main file, for `import`. */
  readonly entry: string;
  /** Folders that its links lead to, besides the repository. */
  readonly linked: readonly string[];
}

/** The folder whose `dist` is built from the sources as they are now: by `npm test`, or by this run where that is older. */
export async function findBuild(): Promise<string> {
  return isCurrent() ? ROOT : once("built", build);
}

/** The package with a folder around it that a test may write to. */
export async function buildPackage(): Promise<BuiltPackage> {
  const build = await findBuild();
  const folder = await mkdtemp(join(tmpdir(), "built-"));
  await symlink(join(build, "dist"), join(folder, "dist"));
  await addSurroundings(folder);
  return {
    folder,
    entry: join(folder, "dist/index.js"),
    linked: build === ROOT ? [] : [build],
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/**
 * The package with the modules of `dist` joined in a few files: hundreds of processes start in half the time. What the
 * modules know of where they are stays the same, and so do the packages that they load.
 */
export function bundlePackage(): Promise<string> {
  return once("bundled", async (folder) => {
    const { build } = await import("vite");
    const dist = join(ROOT, "dist");
    const entries = readdirSync(dist).filter((name) => name.endsWith(".js"));
    // Modules that processes begin with, or that are imported by their address.
    const started = ["core/runs/isolation/agent-main.js", "cli/torture/mix/agents.js"];
    const flat = (name: string) => name.replaceAll("/", "-").replace(/\.js$/, "");
    await build({
      root: ROOT,
      configFile: false,
      publicDir: false,
      logLevel: "error",
      plugins: [
        {
          name: "place",
          transform: (code, id) =>
            id.startsWith(dist)
              ? code.replaceAll(
                  "import.meta.url",
                  `new URL(${JSON.stringify(`./${relative(dist, id)}`)}, import.meta.url).href`,
                )
              : undefined,
        },
      ],
      build: {
        ssr: true,
        minify: false,
        outDir: join(folder, "dist"),
        target: "node20",
        rollupOptions: {
          preserveEntrySignatures: "strict",
          treeshake: false,
          input: Object.fromEntries([...entries, ...started].map((name) => [flat(name), join(dist, name)])),
          output: { entryFileNames: "[name].js", chunkFileNames: "chunk-[hash].js" },
        },
      },
    });
    for (const name of started) {
      const path = join(folder, "dist", name);
      await mkdir(dirname(path), { recursive: true });
      const up = relative(dirname(path), join(folder, "dist"));
      await writeFile(path, `export * from "${up}/${flat(name)}.js";\n`);
    }
    await addSurroundings(folder);
  });
}

/** What `npm pack` reports about the tarball that it created. */
export interface PackedPackage {
  readonly tarball: string;
  readonly files: readonly { readonly path: string }[];
}

/** Packs what `dist` holds as npm publishes it. The tarball is for all files of the run. */
export async function packPackage(): Promise<PackedPackage> {
  const folder = await once("packed", async (into) => {
    const args = ["pack", "--json", "--ignore-scripts", "--pack-destination", into];
    const { stdout } = await run("npm", args, { cwd: ROOT, maxBuffer: 1 << 24 });
    await writeFile(join(into, "told.json"), stdout);
  });
  const [{ filename, files }] = JSON.parse(await readFile(join(folder, "told.json"), "utf8"));
  return { tarball: join(folder, filename), files };
}

/** Whether nothing was changed since `dist` was built. */
function isCurrent(): boolean {
  const changed = (path: string) => statSync(join(ROOT, path), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  const sources = readdirSync(join(ROOT, "src"), { recursive: true, encoding: "utf8" });
  const files = ["package.json", "tsconfig.build.json", ...sources.map((name) => join("src", name))];
  return Math.max(...files.map(changed)) < changed("dist/index.js");
}

async function build(folder: string): Promise<void> {
  const tsc = join(ROOT, "node_modules/typescript/bin/tsc");
  const args = [tsc, "-p", "tsconfig.build.json", "--outDir", join(folder, "dist")];
  await run(process.execPath, args, { cwd: ROOT });
  await addSurroundings(folder);
}

/** What modules of `dist` look for beside it. */
async function addSurroundings(folder: string): Promise<void> {
  await copyFile(join(ROOT, "package.json"), join(folder, "package.json"));
  for (const name of ["node_modules", "public", "templates"])
    await symlink(join(ROOT, name), join(folder, name));
}
