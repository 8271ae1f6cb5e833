import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** Installs packages into a temporary folder, without running their scripts; `undefined` if that fails. */
export async function install(
  ...packages: readonly string[]
): Promise<(AsyncDisposable & { readonly folder: string }) | undefined> {
  const folder = await mkdtemp(join(tmpdir(), "bench-peer-"));
  const remove = () => rm(folder, { recursive: true, force: true });
  const how = ["--ignore-scripts", "--legacy-peer-deps", "--no-audit", "--no-fund", "--no-save"];
  try {
    await writeFile(join(folder, "package.json"), '{ "private": true }');
    await promisify(execFile)("npm", ["install", ...how, ...packages], { cwd: folder, timeout: 300_000 });
    return { folder, [Symbol.asyncDispose]: remove };
  } catch {
    await remove();
    return undefined;
  }
}
