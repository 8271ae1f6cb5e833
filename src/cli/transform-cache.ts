import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, dirname, join } from "node:path";
import type { TransformOptions } from "jiti";

const { version } = createRequire(import.meta.url)("jiti/package.json") as { version: string };

/**
 * Keeps transformed files for the next command, in `.cache` of the `node_modules` that the folder's imports come from:
 * who can write there could change the packages as well. What cannot be kept is transformed each time.
 */
export function cachedTransform(
  folder: string,
  transform: (options: TransformOptions) => string,
): (options: TransformOptions) => string {
  const packages = findPackages(folder);
  if (packages === undefined) return transform;
  const cache = join(packages, ".cache/agent-control-service");
  return (options) => {
    const { source, filename = "", ...rest } = options;
    const file = join(cache, `${basename(filename)}.${digest(filename, JSON.stringify(rest))}.mjs`);
    // A file that was cut off lacks its last line.
    const end = `\n// ${digest(source, version)}\n`;
    const kept = read(file);
    if (kept?.endsWith(end)) return kept.slice(0, -end.length);
    const code = transform(options);
    if (!code.includes("__JITI_ERROR__")) write(file, code + end);
    return code;
  };
}

function findPackages(folder: string): string | undefined {
  const packages = join(folder, "node_modules");
  if (existsSync(packages)) return packages;
  return dirname(folder) === folder ? undefined : findPackages(dirname(folder));
}

function digest(...texts: string[]): string {
  const hash = createHash("sha256");
  for (const text of texts) hash.update(`${text.length} ${text}`);
  return hash.digest("hex").slice(0, 32);
}

function read(file: string): string | undefined {
  return attempt(() => readFileSync(file, "utf8"));
}

function write(file: string, text: string): void {
  const written = `${file}.${process.pid}`;
  const isKept = attempt(() => {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(written, text);
    renameSync(written, file);
    return true;
  });
  if (!isKept) attempt(() => rmSync(written, { force: true }));
}

/** A folder that cannot be used, or a full disk, must not keep a service from starting. */
function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
