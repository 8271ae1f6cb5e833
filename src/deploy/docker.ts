import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { DeployError } from "./errors.ts";
import type { RegistryAuth } from "./platform.ts";
import { secretId } from "./templates.ts";
import type { DeployTools, ExecResult } from "./tools.ts";

/** What this machine's Docker can do. */
export interface Docker {
  readonly version: string;
  readonly buildx: boolean;
  /** Processor of the engine, as Docker names it: `amd64`, `arm64`. */
  readonly architecture: string;
  /** The command that runs compose files, in its spelling here. */
  readonly compose: readonly string[] | undefined;
}

/** The processor that an image is for, where the platform names no other. */
export const DEFAULT_ARCHITECTURE = "amd64";

const LAST_LINES = 25;
/** Attempts, a second apart, while Docker prunes for somebody else. */
const PRUNE_TRIES = 60;

/** Looks for a running engine; rejects with what to do if there is none. */
export async function findDocker(tools: DeployTools): Promise<Docker> {
  const engine = await tools.exec("docker", ["version", "--format", "{{.Server.Version}} {{.Server.Arch}}"]);
  if (engine.code !== 0)
    throw new DeployError("preflight", "Docker is installed, but its engine does not answer", {
      detail: lastLine(engine),
      fix: "Start Docker (Docker Desktop, or: sudo systemctl start docker) and run the command again",
    });
  const [buildx, compose] = await Promise.all([
    works(tools, "docker", ["buildx", "version"]),
    findCompose(tools),
  ]);
  const [version = "", architecture = DEFAULT_ARCHITECTURE] = engine.stdout.trim().split(" ");
  return { version, architecture, buildx, compose };
}

/**
 * Rejects where this machine cannot build an image for another processor than the usual one. Whether an engine can
 * build for that one is reported by the build itself.
 */
export async function checkArchitecture(
  tools: DeployTools,
  { architecture: own, buildx }: Docker,
  wanted: string,
): Promise<void> {
  if (wanted === own || wanted === DEFAULT_ARCHITECTURE) return;
  if (buildx) {
    const { stdout } = await tools.exec("docker", ["buildx", "inspect"]);
    const platforms = /^Platforms:(.*)$/m.exec(stdout)?.[1] ?? "";
    if (platforms.split(/[,*\s]+/).includes(`linux/${wanted}`)) return;
  }
  throw new DeployError(
    "preflight",
    `The image must be built for ${wanted}, and Docker here builds for ${own}`,
    {
      outcome: "Nothing was built",
      fix: buildx
        ? `Let this machine run the programs of that processor: docker run --privileged --rm tonistiigi/binfmt --install ${wanted}`
        : `Build on a machine with that processor, or install the Docker buildx plugin: https://docs.docker.com/go/buildx/`,
    },
  );
}

/** Builds an image from a packed context. */
export async function buildImage(
  tools: DeployTools,
  docker: Docker,
  options: {
    readonly tar: AsyncIterable<Uint8Array>;
    readonly ref: string;
    /** Processor that it is for, as Docker names it. @default "amd64" */
    readonly architecture?: string;
    /** Labels of the image, by name. */
    readonly labels?: Readonly<Record<string, string>>;
    /** Files that only the installation sees, absolute. */
    readonly secretFiles?: readonly string[];
    readonly env?: Record<string, string>;
    /** Its layers are to be a cache of builds on other machines; needs BuildKit. */
    readonly shared?: boolean;
    /** Such an image that this engine has. */
    readonly cacheFrom?: string | undefined;
  },
): Promise<void> {
  const { tar, ref, architecture = DEFAULT_ARCHITECTURE, labels = {}, secretFiles = [], env = {} } = options;
  const [first] = secretFiles;
  if (first !== undefined && !docker.buildx)
    throw new DeployError(
      "preflight",
      `The ${basename(first)} of this project contains a login, and this Docker cannot keep it out of the image`,
      {
        detail: "Only BuildKit can show a file to a build without leaving it in a layer",
        fix: "Install the Docker buildx plugin: https://docs.docker.com/go/buildx/",
      },
    );
  const secret = secretFiles.flatMap((file) => ["--secret", `id=${secretId(file)},src=${file}`]);
  const args = docker.buildx
    ? [
        "buildx",
        "build",
        "--load",
        "--provenance=false",
        "--progress=plain",
        ...secret,
        ...cacheWords(options),
      ]
    : ["build", "--force-rm"];
  const marks = Object.entries(labels).flatMap(([name, value]) => ["--label", `${name}=${value}`]);
  const words = [...args, "--platform", `linux/${architecture}`, ...marks, "--tag", ref, "-"];
  const result = await tools.exec("docker", words, {
    input: tar,
    env: { DOCKER_CLI_HINTS: "false", ...env },
  });
  if (result.code !== 0) throw failed(`The image ${ref} was not built`, result);
}

function cacheWords({ shared, cacheFrom }: { shared?: boolean; cacheFrom?: string | undefined }): string[] {
  return [
    ...(shared ? ["--build-arg", "BUILDKIT_INLINE_CACHE=1"] : []),
    ...(cacheFrom === undefined ? [] : ["--cache-from", cacheFrom]),
  ];
}

/** Pushes an image and reads its digest back. */
export async function pushImage(
  tools: DeployTools,
  ref: string,
  auth: RegistryAuth | undefined,
): Promise<string> {
  const pushed = await withLogin(tools, auth, ["push", ref]);
  if (pushed.code !== 0) throw pushFailure(ref, pushed, auth);
  return readDigest(tools, ref);
}

/**
 * Lends an image of a registry to this engine, as a cache of a build; resolves with how to remove it where it was not there before,
 * and with undefined where it cannot be had.
 */
export async function borrowImage(
  tools: DeployTools,
  ref: string,
  login: () => Promise<RegistryAuth | undefined>,
): Promise<(() => Promise<void>) | undefined> {
  if (await works(tools, "docker", ["image", "inspect", ref])) return async () => undefined;
  const pulled = await withLogin(tools, await login(), ["pull", "--quiet", ref]);
  if (pulled.code !== 0) return undefined;
  return async () => void (await tools.exec("docker", ["image", "rm", ref]));
}

/** Runs a Docker command with a login that only this command knows. */
async function withLogin(
  tools: DeployTools,
  auth: RegistryAuth | undefined,
  args: readonly string[],
): Promise<ExecResult> {
  if (auth) tools.redact(auth.password);
  const folder = await mkdtemp(join(tmpdir(), "svc-docker-"));
  try {
    const host = await engineHost(tools);
    await writeFile(join(folder, "config.json"), JSON.stringify(toDockerConfig(auth)), { mode: 0o600 });
    return await tools.exec("docker", ["--config", folder, ...args], { env: host });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Tags an image with a name derived from its content; resolves with the name. */
export async function nameByContent(tools: DeployTools, ref: string): Promise<string> {
  const what = `The image ${ref} could not be tagged`;
  const { stdout } = await docker(tools, ["inspect", "--format", "{{.Id}}", ref], what);
  const name = `${ref}-${stdout.trim().replace("sha256:", "").slice(0, 12)}`;
  await docker(tools, ["tag", ref, name], what);
  return name;
}

/** Runs a Docker command whose failure ends the deployment. */
export async function docker(tools: DeployTools, args: readonly string[], what: string): Promise<ExecResult> {
  const result = await tools.exec("docker", args);
  if (result.code !== 0) throw failed(what, result);
  return result;
}

/** Removes the images without a name that have a label. Docker refuses to do so while it does so for somebody else. */
export async function pruneImages(tools: DeployTools, label: string): Promise<void> {
  const args = ["image", "prune", "--force", "--filter", `label=${label}`];
  for (let left = PRUNE_TRIES; ; left--) {
    const result = await tools.exec("docker", args);
    if (result.code === 0) return;
    if (left === 0 || !result.stderr.includes("already running"))
      throw failed("Old images could not be removed", result);
    await tools.sleep(1000);
  }
}

async function readDigest(tools: DeployTools, ref: string): Promise<string> {
  const what = `The digest of ${ref} could not be read`;
  const { stdout } = await docker(tools, ["inspect", "--format", "{{json .RepoDigests}}", ref], what);
  const repository = ref.replace(/:[^:/]*$/, "");
  const found = (JSON.parse(stdout) as string[]).find((one) => one.startsWith(`${repository}@`));
  if (found === undefined) throw new DeployError("failed", what, { detail: stdout.trim() });
  return found.slice(repository.length + 1);
}

function toDockerConfig(auth: RegistryAuth | undefined): unknown {
  if (auth === undefined) return {};
  const login = Buffer.from(`${auth.username}:${auth.password}`).toString("base64");
  return { auths: { [auth.registry]: { auth: login } } };
}

/** A separate config folder has none of the user's contexts, so the engine's address is passed instead. */
async function engineHost(tools: DeployTools): Promise<Record<string, string>> {
  if (tools.env.DOCKER_HOST) return {};
  const context = await tools.exec("docker", [
    "context",
    "inspect",
    "--format",
    "{{.Endpoints.docker.Host}}",
  ]);
  const host = context.stdout.trim();
  return context.code === 0 && host !== "" ? { DOCKER_HOST: host } : {};
}

async function findCompose(tools: DeployTools): Promise<readonly string[] | undefined> {
  if (await works(tools, "docker", ["compose", "version"])) return ["docker", "compose"];
  if (await works(tools, "docker-compose", ["version"])) return ["docker-compose"];
  return undefined;
}

async function works(tools: DeployTools, command: string, args: readonly string[]): Promise<boolean> {
  try {
    return (await tools.exec(command, args)).code === 0;
  } catch (error) {
    if (tools.signal.aborted) throw error;
    return false;
  }
}

function failed(message: string, result: ExecResult): DeployError {
  const text = stripVTControlCharacters(`${result.stdout}\n${result.stderr}`);
  const lines = text.split(/\r?\n/).filter((line) => line.trim() !== "");
  // npm says what is wrong first, and then all of its options.
  const cause = lines.findIndex((line) => /npm (error|ERR!) code /.test(line));
  return new DeployError("build_failed", message, {
    detail: lastLine(result),
    log: cause < 0 ? lines.slice(-LAST_LINES) : lines.slice(cause, cause + LAST_LINES),
    fix: fixFor(lines.join("\n")),
  });
}

/** Why a push failed: the connection to the registry, its login, or something else. */
function pushFailure(ref: string, result: ExecResult, auth: RegistryAuth | undefined): DeployError {
  const error = failed(`The image ${ref} was not pushed`, result);
  const output = `${result.stdout}\n${result.stderr}`;
  const host = auth?.registry ?? ref.split("/")[0] ?? ref;
  const { detail, log } = error;
  if (NO_WAY.test(output))
    return new DeployError("unreachable", `${host} could not be reached: Docker's push got no response`, {
      detail,
      log,
      fix: "Check the network and the DNS server. Docker uses the proxy of its own engine: https://docs.docker.com/engine/daemon/proxy/",
    });
  if (!/\b401\b|unauthorized|authentication required|no basic auth|expired/i.test(output)) return error;
  const fix = auth?.renew ?? `Log in to ${host} again, and check the permissions with svc deploy doctor`;
  const message = `${host} rejected the login: it is expired or invalid`;
  return new DeployError("login_expired", message, { detail, log, fix });
}

const NO_WAY =
  /no such host|connection refused|i\/o timeout|network is unreachable|no route to host|proxyconnect|TLS handshake timeout|context deadline exceeded|Client\.Timeout/i;

function fixFor(output: string): string {
  if (/exec format error/i.test(output))
    return "The image is for another processor than this machine has, and it cannot run that: docker run --privileged --rm tonistiigi/binfmt --install all";
  if (
    /npm (error|ERR!) code EUSAGE|ERR_PNPM_OUTDATED_LOCKFILE|lockfile would have been modified/i.test(output)
  )
    return "The lock file does not fit package.json, as the version of the package manager in the image reads it: install with that version, such as npx npm@latest install, and deploy again";
  if (/no space left on device/i.test(output)) return "Free disk space: docker system prune";
  if (/unauthorized|denied|authentication required/i.test(output))
    return "The registry refused the login: check the permissions with svc deploy doctor";
  return "The complete log is in .deployment/logs/; --verbose shows it while it is written";
}

function lastLine(result: ExecResult): string {
  const text = result.stderr.trim() || result.stdout.trim();
  return text.split(/\r?\n/).at(-1) ?? "";
}
