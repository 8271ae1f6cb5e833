import { isLoopback } from "../core/base/loopback.ts";
import type { Deployment } from "./deployment.ts";
import { DEFAULT_ARCHITECTURE } from "./docker.ts";
import { DeployError } from "./errors.ts";
import { reach } from "./network.ts";
import type { RegistryAuth } from "./platform.ts";
import type { DeployTools } from "./tools.ts";

/** Manifests of one image, and of an image for several processors (OCI image spec 1.1, and Docker's before it). */
const KINDS = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
];

interface Machine {
  readonly os?: string;
  readonly architecture?: string;
}

interface Manifest {
  readonly manifests?: readonly { readonly platform?: Machine }[];
  readonly config?: { readonly digest?: string };
}

/** Rejects what the platform cannot run, before anything is done. */
export function refuseForeignImage({ session, platform }: Deployment, ref: string): void {
  const problem =
    session.takesImage === undefined
      ? "it takes images only as svc builds and sends them"
      : session.takesImage(ref);
  if (problem === undefined) return;
  throw new DeployError("usage", `--image-ref ${ref}: ${platform.name} cannot run it: ${problem}`, {
    outcome: "Nothing was released",
    fix: "Leave the option out, and svc builds the image",
  });
}

/**
 * Rejects an image that the registry does not have, or that is for another processor than the service's. Writes nothing, so it
 * is asked before the plan is accepted.
 */
export async function checkGivenImage({ session, tools }: Deployment, ref: string): Promise<void> {
  const wanted = (await session.architecture?.()) ?? DEFAULT_ARCHITECTURE;
  const auth = await session.registryLogin("read");
  if (auth) tools.redact(auth.password);
  const machines = await machinesOf(tools, ref, auth);
  if (machines.some(({ os, architecture }) => os === "linux" && architecture === wanted)) return;
  const found = machines.map(({ os, architecture }) => `${os}/${architecture}`).join(", ") || "nothing known";
  throw new DeployError(
    "preflight",
    `The image ${ref} is for ${found}, and the service needs linux/${wanted}`,
    {
      outcome: "Nothing was released",
      fix: `Build it for linux/${wanted}: docker buildx build --platform linux/${wanted} …`,
    },
  );
}

async function machinesOf(
  tools: DeployTools,
  ref: string,
  auth: RegistryAuth | undefined,
): Promise<readonly Machine[]> {
  const registry = new Registry(tools, ref, auth);
  const digest = ref.split("@")[1] ?? "";
  const { manifests, config } = (await registry.get(`manifests/${digest}`, KINDS)) as Manifest;
  if (manifests !== undefined) return manifests.flatMap(({ platform }) => platform ?? []);
  if (config?.digest === undefined) return [];
  return [(await registry.get(`blobs/${config.digest}`, ["*/*"])) as Machine];
}

/** Reads from a registry (OCI distribution spec 1.1), with the login where it is for this registry. */
class Registry {
  readonly #tools: DeployTools;
  readonly #ref: string;
  readonly #host: string;
  readonly #base: string;
  readonly #repository: string;
  #authorization: string | undefined;

  constructor(tools: DeployTools, ref: string, auth: RegistryAuth | undefined) {
    const [host = "", ...path] = (ref.split("@")[0] ?? "").split("/");
    this.#tools = tools;
    this.#ref = ref;
    this.#host = host;
    // Docker's own registry answers at another host than its images are named by.
    const at = host === "docker.io" ? "registry-1.docker.io" : host;
    this.#base = `${isLoopback(host.split(":")[0] ?? "") ? "http" : "https"}://${at}/v2`;
    this.#repository = path.join("/");
    const isMine = auth !== undefined && auth.registry.replace(/^https?:\/\//, "").split("/")[0] === host;
    if (isMine)
      this.#authorization = `Basic ${Buffer.from(`${auth.username}:${auth.password}`).toString("base64")}`;
  }

  async get(path: string, accept: readonly string[]): Promise<unknown> {
    const ask = () => {
      const url = `${this.#base}/${this.#repository}/${path}`;
      const headers = {
        accept: accept.join(", "),
        ...(this.#authorization === undefined ? {} : { authorization: this.#authorization }),
      };
      return reach(this.#tools, url, { headers, signal: AbortSignal.timeout(30_000) }, async (response) => {
        if (response.ok) return { status: response.status, body: (await response.json()) as unknown };
        await response.body?.cancel();
        return { status: response.status, challenge: response.headers.get("www-authenticate") };
      });
    };
    let answer = await ask();
    if (answer.status === 401 && (await this.#signIn(answer.challenge))) answer = await ask();
    if ("body" in answer) return answer.body;
    if (answer.status === 404)
      throw this.#failure("does not exist", "Push it first, and name it by the digest that the push printed");
    throw this.#failure(
      `cannot be read (${this.#host} responded with ${answer.status})`,
      "Check that your login may read this repository, and that the service's may too",
    );
  }

  /** Gets a token where the registry asks for one. */
  async #signIn(challenge: string | null | undefined): Promise<boolean> {
    const [, words] = /^Bearer\s+(.*)$/i.exec(challenge ?? "") ?? [];
    const parts = Object.fromEntries(
      [...(words ?? "").matchAll(/(\w+)="([^"]*)"/g)].map(([, a, b]) => [a, b]),
    );
    if (parts.realm === undefined || !URL.canParse(parts.realm)) return false;
    const url = new URL(parts.realm);
    if (url.protocol !== "https:" && !isLoopback(url.hostname)) return false;
    if (parts.service) url.searchParams.set("service", parts.service);
    url.searchParams.set("scope", `repository:${this.#repository}:pull`);
    const init: RequestInit = {
      headers: this.#authorization === undefined ? {} : { authorization: this.#authorization },
      signal: AbortSignal.timeout(30_000),
    };
    const got = await reach(this.#tools, url.href, init, async (response): Promise<string | undefined> => {
      if (!response.ok) return undefined;
      const { token, access_token } = (await response.json()) as { token?: string; access_token?: string };
      return token ?? access_token;
    });
    if (got === undefined) return false;
    this.#tools.redact(got);
    this.#authorization = `Bearer ${got}`;
    return true;
  }

  #failure(what: string, fix: string): DeployError {
    return new DeployError("preflight", `The image ${this.#ref} ${what}`, {
      outcome: "Nothing was released",
      fix,
    });
  }
}
