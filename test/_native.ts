import { copyFileSync, readdirSync, symlinkSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "rolldown";
import type { Plugin } from "vitest/config";
import { compiledTemplates } from "../compile-templates.ts";
import { writeTemplates } from "../write-templates.ts";
import { once } from "./_once.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SRC = join(ROOT, "src");

/** Where they are: for `server.deps.external`. */
export const NATIVE = /\/svc-run-[^/]+\/shared\/sources\/src\//;

/**
 * Has the sources as modules that Node loads itself: built once per run, each in a file of its own. Processes of the tests
 * start, and run them, faster than what vitest makes of them. While vitest watches for changes, they stay as they are.
 */
export function nativeSources(): Plugin {
  let isWatching = false;
  let built: Promise<string> | undefined;
  return {
    name: "native-sources",
    enforce: "pre",
    configureVitest({ vitest }) {
      isWatching = vitest.config.watch;
    },
    async resolveId(id, importer) {
      const path = id.startsWith(".") && importer ? resolve(dirname(importer), id) : id;
      if (isWatching || !path.startsWith(`${SRC}/`) || !isModule(relative(SRC, path))) return undefined;
      built ??= once("sources", buildModules);
      return join(await built, "src", relative(SRC, path).replace(/\.ts$/, ".js"));
    },
  };
}

async function buildModules(folder: string): Promise<void> {
  const names = readdirSync(SRC, { recursive: true, encoding: "utf8" }).filter(isModule);
  await build({
    cwd: ROOT,
    input: Object.fromEntries(names.map((name) => [name.slice(0, -3), join(SRC, name)])),
    platform: "node",
    external: /^[^./]/,
    preserveEntrySignatures: "strict",
    treeshake: false,
    plugins: [compiledTemplates()],
    transform: { target: "es2023" },
    output: {
      dir: join(folder, "src"),
      entryFileNames: "[name].js",
      preserveModules: true,
      preserveModulesRoot: SRC,
    },
  });
  // What modules look for above their folder.
  copyFileSync(join(ROOT, "package.json"), join(folder, "package.json"));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
  writeTemplates(join(folder, "src/templates"));
}

/** Whether a file of the sources is a module of the package, and not of a project that is created from it. */
function isModule(name: string): boolean {
  return name.endsWith(".ts") && !name.startsWith("templates/");
}
