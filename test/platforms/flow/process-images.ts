import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Instance } from "../instances.ts";
import type { UserImages } from "./user-site.ts";

/** Images that the stand-in for Docker pushed, each run as a process of the command that the image would start. */
export class ProcessImages implements UserImages {
  readonly #pushed: string;
  readonly #packages: string;
  readonly #machine: Readonly<Record<string, string>>;
  readonly #running = new Set<() => Promise<void>>();

  /** `packages` is what an installation in the image would make, `machine` the variables that the machine sets besides. */
  constructor(pushed: string, packages: string, machine: Readonly<Record<string, string>> = {}) {
    this.#pushed = pushed;
    this.#packages = packages;
    this.#machine = machine;
  }

  has(image: string): boolean {
    return existsSync(this.#layer(image));
  }

  /** Digest of what was pushed under a name. */
  digestOf(ref: string): string | undefined {
    const file = join(this.#pushed, `digest-${createHash("sha256").update(ref).digest("hex").slice(0, 32)}`);
    return existsSync(file) ? /sha256:[0-9a-f]{64}/.exec(readFileSync(file, "utf8"))?.[0] : undefined;
  }

  async start(image: string, env: Readonly<Record<string, string>>): Promise<Instance> {
    if (!this.has(image)) throw new Error(`${image} cannot be pulled`);
    const cwd = mkdtempSync(join(tmpdir(), "svc-image-"));
    execFileSync("tar", ["--extract", "--directory", cwd, "--file", this.#layer(image)]);
    symlinkSync(this.#packages, join(cwd, "node_modules"));
    const data = join(cwd, "data");
    mkdirSync(data);
    const listening = join(cwd, "listening");
    const { PORT: _, ...variables } = env;
    const child = spawn(process.execPath, ["node_modules/.bin/svc", "start", "src/controller.ts"], {
      cwd,
      env: {
        PATH: process.env.PATH,
        ...this.#machine,
        ...variables,
        SERVICE_PORT: "0",
        SERVICE_DATA_DIR: data,
        LISTENING: listening,
      },
      stdio: "ignore",
    });
    const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
    const stop = async () => {
      this.#running.delete(stop);
      child.kill("SIGKILL");
      await ended;
      rmSync(cwd, { recursive: true, force: true });
    };
    this.#running.add(stop);
    const url = await addressOf(child, [join(data, "address"), listening]);
    if (url !== undefined) return { url, env, stop };
    await stop();
    throw new Error("the process ended before it listened");
  }

  async areKept(): Promise<boolean> {
    return readdirSync(this.#pushed).some((file) => file.endsWith(".tar"));
  }

  async close(): Promise<void> {
    await Promise.all([...this.#running].map((stop) => stop()));
  }

  #layer(image: string): string {
    return join(this.#pushed, `${image.split("@sha256:")[1] ?? "none"}.tar`);
  }
}

/** Where a process listens, from the first of these files that says so; nothing where it ended. */
async function addressOf(child: ChildProcess, files: readonly string[]): Promise<string | undefined> {
  while (child.exitCode === null && child.signalCode === null) {
    const file = files.find((one) => existsSync(one));
    const url = file === undefined ? "" : readFileSync(file, "utf8").trim();
    if (url !== "") return url;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return undefined;
}
