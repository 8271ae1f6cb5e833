import { existsSync, realpathSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { AgentDefinition } from "../../agents/define-agent.ts";
import { type Isolation, readIsolation } from "../../agents/isolate-options.ts";
import { OptionsError } from "../../base/check-options.ts";
import { isAtOrBelow } from "../../base/is-at-or-below.ts";

export interface KeptApart {
  /** The name of the agent. */
  readonly agent: string;
  readonly permissions: Isolation["permissions"];
  /** The file that the agent is in. */
  readonly module: string;
  /** Folders that it must not read, such as that of the store. */
  readonly hidden: readonly string[];
}

/**
 * Throws an `OptionsError` where a process of an isolated agent could read what it must not. Node's permissions are lists
 * of what may be read: of a folder that is allowed, no part can be taken away.
 */
export function assertKeptApart({ agent, permissions, module, hidden }: KeptApart): void {
  if (permissions === false) return;
  const root = projectOf(module);
  const refuse = (problem: string, remedy: string): never => {
    throw new OptionsError(
      `Agent "${agent}" is isolated, but ${problem}: ${remedy}, or let it read and write everything (isolate: { permissions: false })`,
    );
  };
  if (dirname(root) === root)
    refuse(`its project is ${root}, all of the file system`, "move it into a folder with a package.json");
  for (const folder of hidden) {
    const real = realpathOf(folder);
    if (isAtOrBelow(root, real))
      refuse(
        `its project ${root} is in the data folder ${folder}, so that it could read the store and the keys`,
        `set another data folder (option dataDir, SERVICE_DATA_DIR), such as ${join(root, "data")}`,
      );
    for (const [name, paths] of Object.entries({ read: permissions.read, write: permissions.write })) {
      const wide = paths.find((path) => isAtOrBelow(real, realpathOf(resolve(root, path))));
      if (wide !== undefined)
        refuse(
          `isolate.permissions.${name} has ${JSON.stringify(wide)}, with the data folder ${folder} in it, where the store and the keys are`,
          "name the folders that it needs",
        );
    }
  }
}

/** The same for all agents of a service; `controller` is the file of those that do not name theirs. */
export function assertAllKeptApart(
  agents: readonly AgentDefinition[],
  { controller, hidden }: { readonly controller: string | undefined; readonly hidden: readonly string[] },
): void {
  for (const { name, isolate } of agents) {
    const isolation = readIsolation(isolate);
    const module = isolation && moduleOf(isolation, controller);
    if (module !== undefined)
      assertKeptApart({ agent: name, permissions: isolation!.permissions, module, hidden });
  }
}

/** The path of the file that an isolated agent is in. */
export function moduleOf({ module }: Isolation, controller: string | undefined): string | undefined {
  const named = module === undefined ? controller : String(module);
  return named?.startsWith("file:") ? fileURLToPath(named) : named;
}

/** The folder of a file's `package.json`, else that of the file. */
export function projectOf(file: string): string {
  const folder = dirname(realpathOf(file));
  return ancestorsOf(folder).find((one) => existsSync(join(one, "package.json"))) ?? folder;
}

/** A folder, and those that it is in. */
export function ancestorsOf(folder: string): string[] {
  const above = dirname(folder);
  return above === folder ? [folder] : [folder, ...ancestorsOf(above)];
}

/** A path without links, also of what does not exist yet. */
export function realpathOf(path: string): string {
  const whole = resolve(path);
  try {
    return realpathSync(whole);
  } catch {
    const above = dirname(whole);
    return above === whole ? whole : join(realpathOf(above), basename(whole));
  }
}
