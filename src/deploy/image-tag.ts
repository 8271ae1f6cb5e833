import { parseRemote } from "./ci/repository.ts";
import { DeployError } from "./errors.ts";
import type { DeployTools } from "./tools.ts";

const TAG = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/;

/** Not part of an image: login files that pipeline steps write beside the sources, and the settings of deployments. */
const NOT_OURS = [":(exclude,glob)**/gha-creds-*.json", ":(exclude)deploy.yaml"];

/** The tag of an image: as typed, else from the git commit (marked when the tree differs from it), else from the content. */
export async function resolveImageTag(
  tools: DeployTools,
  options: { readonly typed: string | undefined; readonly cwd: string; readonly contentHash: string },
): Promise<string> {
  const { typed, cwd, contentHash } = options;
  if (typed !== undefined) {
    if (TAG.test(typed)) return typed;
    throw new DeployError("usage", `--image ${typed}: not an image tag`, {
      detail: "A tag has at most 128 letters, digits, '.', '_', '-' and does not start with '.' or '-'",
      fix: "Omit --image to use the git commit as the tag",
    });
  }
  const commit = await git(tools, cwd, ["rev-parse", "--short=12", "HEAD"]);
  if (commit === undefined) return `content-${contentHash.slice(0, 12)}`;
  return (await isClean(tools, cwd)) ? commit : `${commit}-dirty-${contentHash.slice(0, 8)}`;
}

/** Labels of an image that say where its sources are, by the names of the OCI; no commit where the tree differs from it. */
export async function originLabels(tools: DeployTools, cwd: string): Promise<Record<string, string>> {
  const commit = await git(tools, cwd, ["rev-parse", "HEAD"]);
  const remote = parseRemote((await git(tools, cwd, ["remote", "get-url", "origin"])) ?? "");
  const clean = commit !== undefined && (await isClean(tools, cwd));
  return {
    ...(clean ? { "org.opencontainers.image.revision": commit } : {}),
    ...(remote ? { "org.opencontainers.image.source": `https://${remote.host}/${remote.path}` } : {}),
  };
}

async function isClean(tools: DeployTools, cwd: string): Promise<boolean> {
  return (await git(tools, cwd, ["status", "--porcelain", "--", ".", ...NOT_OURS])) === "";
}

async function git(tools: DeployTools, cwd: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const result = await tools.exec("git", ["-C", cwd, ...args]);
    return result.code === 0 ? result.stdout.trim() : undefined;
  } catch (error) {
    if (tools.signal.aborted) throw error;
    // Without git the content names the image.
    return undefined;
  }
}
