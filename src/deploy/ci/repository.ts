import { DeployError } from "../errors.ts";
import { run } from "../exec.ts";
import type { Repository } from "./pipeline.ts";

/** Where a project is in version control. */
export interface Checkout {
  readonly repository: Repository;
  /** Root of the working tree, absolute. */
  readonly root: string;
  /** Folder of the project below the root, with slashes; empty for the root itself. */
  readonly folder: string;
  /** The default branch, if git knows it. */
  readonly branch: string | undefined;
}

/** Reads a project's repository from its git remote `origin`. */
export async function readCheckout(
  cwd: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Checkout> {
  const git = async (...args: string[]) => {
    const { code, stdout } = await run("git", ["-C", cwd, ...args], { env });
    return code === 0 ? stdout.trim() : undefined;
  };
  const url = await git("remote", "get-url", "origin");
  const repository = url === undefined ? undefined : parseRemote(url);
  if (repository === undefined)
    throw new DeployError("usage", "The repository is unknown: git has no usable remote called origin", {
      outcome: "Nothing was written",
      fix: "Add it: git remote add origin git@github.com:acme/agents.git",
    });
  const head = await git("symbolic-ref", "--short", "refs/remotes/origin/HEAD");
  return {
    repository,
    root: (await git("rev-parse", "--show-toplevel")) ?? cwd,
    folder: ((await git("rev-parse", "--show-prefix")) ?? "").replace(/\/$/, ""),
    branch: head?.replace(/^origin\//, ""),
  };
}

/** Host and path of a remote's URL, in any of git's spellings; a login in it is dropped. */
export function parseRemote(url: string): Repository | undefined {
  const found =
    /^(?:ssh|https?|git):\/\/(?:[^@/]*@)?([^/:]+)(?::\d+)?\/(.+)$/.exec(url) ??
    /^(?:[^@/]+@)?([^/:]+):(?!\/\/)(.+)$/.exec(url);
  const [, host = "", path = ""] = found ?? [];
  const clean = path.replace(/\/+$/, "").replace(/\.git$/, "");
  if (!/^[\w.-]+$/.test(host) || !/^[\w.-]+(?:\/[\w.-]+)+$/.test(clean)) return undefined;
  return { host: host.toLowerCase(), path: clean };
}
