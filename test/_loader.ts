import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

const HOOKS = `
import { appendFileSync } from "node:fs";
export async function load(url, context, next) {
  appendFileSync(process.env.TRACE, url + "\\n");
  return next(url, context);
}`;

/** A module that others are imported after: it writes the address of every module that is loaded to `$TRACE`. */
export const TRACED = `
import { register } from "node:module";
register(${JSON.stringify(`data:text/javascript,${encodeURIComponent(HOOKS)}`)});
`;

/** What a process has loaded: packages by their names, and modules of this package as they are called below `src`. */
export interface LoadedModules {
  readonly packages: readonly string[];
  readonly modules: readonly string[];
}

/** Reads what was written to `$TRACE`. Files of `dist` name each source that they hold in a comment before it. */
export async function loadedModules(trace: string): Promise<LoadedModules> {
  const urls = [...new Set((await readFile(trace, "utf8")).split("\n"))];
  const packages = urls.flatMap((url) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(url)?.[1] ?? []);
  const files = urls.filter(
    (url) => /^file:.*\/dist\/[^?]*\.js$/.test(url) && !url.includes("/node_modules/"),
  );
  const texts = await Promise.all(files.map((url) => readFile(fileURLToPath(url), "utf8")));
  const modules = texts.flatMap((text) =>
    Array.from(text.matchAll(/^\/\/ src\/(\S+)$/gm), ([, name]) => name!),
  );
  return { packages: [...new Set(packages)], modules };
}
