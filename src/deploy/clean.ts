import { readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { DeployError } from "./errors.ts";
import { deploymentFolder, isEdited, refuseLinks } from "./files.ts";

export interface CleanOutcome {
  readonly removed: readonly string[];
  readonly kept: readonly string[];
}

/** Removes generated files and logs, or the whole folder. Unfinished runs keep what they need. */
export async function clean(cwd: string, options: { readonly all: boolean }): Promise<CleanOutcome> {
  const folder = deploymentFolder(cwd);
  await refuseLinks(cwd);
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const unfinished = (await readdir(join(folder, "state"), { recursive: true }).catch(() => [])).filter(
    (file) => file.endsWith(".journal") || file.endsWith(".lock"),
  );
  if (options.all && unfinished.length > 0)
    throw new DeployError("failed", "A deployment from this folder has not finished", {
      detail: `.deployment/state/${unfinished[0]}`,
      fix: "Run svc deploy up (or down) again to finish it, then clean",
    });
  const removed: string[] = [];
  const kept: string[] = [];
  for (const entry of entries) {
    const path = join(folder, entry.name);
    const generated = entry.isFile() && !isEdited(await readFile(path, "utf8"));
    if (options.all || generated || entry.name === "logs") {
      await rm(path, { recursive: true, force: true });
      removed.push(entry.name);
    } else kept.push(entry.name);
  }
  if (options.all) await rm(folder, { recursive: true, force: true });
  return { removed, kept };
}
