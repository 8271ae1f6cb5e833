import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Instance } from "../instances.ts";
import type { UserImages } from "./user-site.ts";

const run = promisify(execFile);

/** User and password by registry host. */
export type Logins = Readonly<Record<string, readonly [string, string]>>;

/** Images of registries, pulled by digest and run as containers of this machine. */
export class ContainerImages implements UserImages {
  readonly #label: string;
  /** What the registries are sent, by host. */
  readonly #logins: Readonly<Record<string, string>>;
  readonly #config = mkdtempSync(join(tmpdir(), "svc-pull-"));
  readonly #pulled = new Set<string>();

  constructor(label: string, logins: Logins) {
    this.#label = label;
    const encoded = Object.entries(logins).map(([host, login]) => [
      host,
      Buffer.from(login.join(":")).toString("base64"),
    ]);
    this.#logins = Object.fromEntries(encoded);
    const auths = Object.fromEntries(encoded.map(([host, auth]) => [host, { auth }]));
    writeFileSync(join(this.#config, "config.json"), JSON.stringify({ auths }));
  }

  async has(image: string): Promise<boolean> {
    if (this.#pulled.has(image)) return true;
    const pulled = await run("docker", ["--config", this.#config, "pull", "--quiet", image]).catch(
      () => undefined,
    );
    if (pulled !== undefined) this.#pulled.add(image);
    return pulled !== undefined;
  }

  async start(image: string, env: Readonly<Record<string, string>>): Promise<Instance> {
    if (!(await this.has(image))) throw new Error(`${image} cannot be pulled`);
    const port = env.PORT ?? "8000";
    const names = Object.keys(env).flatMap((name) => ["--env", name]);
    const options = ["--label", this.#label, "--publish", `127.0.0.1::${port}`, ...names];
    const { stdout } = await run("docker", ["run", "--detach", ...options, image], {
      env: { ...process.env, ...env },
    });
    const id = stdout.trim();
    const stop = async () => void (await run("docker", ["rm", "--force", "--volumes", id]));
    try {
      const address = await run("docker", ["port", id, port]);
      const url = `http://${address.stdout.trim()}`;
      await untilAnswering(url, id);
      return { url, env, stop };
    } catch (error) {
      await stop();
      throw error;
    }
  }

  /** Whether the registries hold all that was pulled from them. */
  async areKept(): Promise<boolean> {
    const found = await Promise.all([...this.#pulled].map((image) => this.#manifest("HEAD", image)));
    return found.length > 0 && found.every(({ ok }) => ok);
  }

  /** Ends what still runs, and takes the images out of the registries. */
  async close(): Promise<void> {
    const containers = await run("docker", ["ps", "--all", "--quiet", "--filter", `label=${this.#label}`]);
    const ids = containers.stdout.split("\n").filter(Boolean);
    if (ids.length > 0) await run("docker", ["rm", "--force", "--volumes", ...ids]);
    await Promise.all([...this.#pulled].map((image) => this.#manifest("DELETE", image)));
    rmSync(this.#config, { recursive: true, force: true });
  }

  #manifest(method: string, image: string): Promise<Response> {
    const [, host = "", repository, digest] = /^([^/]+)\/(.+)@(.+)$/.exec(image) ?? [];
    return fetch(`http://${host}/v2/${repository}/manifests/${digest}`, {
      method,
      headers: {
        authorization: `Basic ${this.#logins[host]}`,
        accept: "application/vnd.docker.distribution.manifest.v2+json",
      },
    });
  }
}

/** Resolves at the first answer; rejects when the container ends without one. */
async function untilAnswering(url: string, id: string): Promise<void> {
  const ended = new AbortController();
  const waiting = spawn("docker", ["wait", id], { stdio: ["ignore", "pipe", "ignore"] });
  waiting.stdout.once("data", (code) => ended.abort(new Error(`the container ended with code ${code}`)));
  try {
    for (;;) {
      ended.signal.throwIfAborted();
      // Of a connection that ends before anything was sent on it, `fetch` says nothing.
      const signal = AbortSignal.any([ended.signal, AbortSignal.timeout(2000)]);
      const answer = await fetch(`${url}/.well-known/health`, { signal }).catch(() => undefined);
      if (answer?.ok) return;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  } finally {
    waiting.kill();
  }
}
