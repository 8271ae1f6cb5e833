import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { appendFileSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { ADDRESS_FILE } from "../job/connection.ts";
import { ServiceClient } from "../job/service-client.ts";

/**
 * Longest time that a start may take, milliseconds: on a busy machine most of it is spent waiting for the
 * CPU.
 */
const LONGEST_START = 300_000;

/** What the service's process runs. */
export interface Program {
  /** The controller file. */
  readonly file: string;
  /** Folder in which the service runs. */
  readonly cwd: string;
  /** Before each process of an instance. */
  beforeStart?(instance: string): Promise<void>;
  /** The process of an instance is about to be ended. */
  ended?(instance: string, how: "kill" | "hand-over"): void;
}

/** The service under test, in its own process that can be killed and restarted. */
export class ServiceProcess {
  readonly #program: Program;
  readonly #name: string;
  readonly #dataDir: string;
  readonly #context: CliContext;
  readonly #key: string;
  readonly #env: Readonly<Record<string, string>>;
  #child: ChildProcess | undefined;
  /** Settles once the process has exited and all its output has been read. */
  #gone: Promise<void> = Promise.resolve();
  #output = "";
  #isOver = false;

  constructor(options: {
    readonly program: Program;
    /** Name of the instance, where there are several. */
    readonly name?: string;
    readonly dataDir: string;
    readonly context: CliContext;
    /** Variables of its environment beside those of the context. */
    readonly env?: Readonly<Record<string, string>>;
    /** @default a random one */
    readonly key?: string;
  }) {
    this.#program = options.program;
    this.#name = options.name ?? "service";
    this.#dataDir = options.dataDir;
    this.#context = options.context;
    this.#env = options.env ?? {};
    this.#key = options.key ?? randomBytes(24).toString("base64url");
  }

  /** Whether its process runs, or is frozen. */
  get isUp(): boolean {
    return this.#child !== undefined && !this.#hasEnded();
  }

  /** What its process has printed last. */
  get output(): string {
    return this.#output;
  }

  /** Starts a process, without waiting for it. */
  async begin(): Promise<void> {
    // A killed process leaves its address behind.
    await rm(join(this.#dataDir, ADDRESS_FILE), { force: true });
    await this.#program.beforeStart?.(this.#name);
    if (this.#isOver) throw new CliError("The test is over");
    const { file, cwd } = this.#program;
    const [program, ...args] = this.#context.self;
    const account = ["WORKSPACE_ID", "API_KEY", "API_URL"].map((name) => [`SERVICE_ACCOUNT_${name}`, ""]);
    this.#output = "";
    const child = spawn(program!, [...args, "start", file, "--port", "0", "--host", "127.0.0.1"], {
      cwd,
      env: {
        // As under svc dev: what would differ after a kill is found without one, too.
        SERVICE_STRICT_STEPS: "true",
        ...this.#context.env,
        // A test must not send its jobs to a control system.
        ...Object.fromEntries(account),
        SERVICE_DATA_DIR: this.#dataDir,
        SERVICE_API_KEY: this.#key,
        SERVICE_LOG_LEVEL: "warn",
        ...this.#env,
      },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    this.#gone = new Promise((resolve) => void child.once("close", () => resolve()));
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        this.#output = (this.#output + text).slice(-20_000);
        appendFileSync(`${this.#dataDir}.log`, text);
      });
    }
  }

  /** Starts a process and waits until it responds. */
  async start(): Promise<ServiceClient> {
    await this.begin();
    const address = join(this.#dataDir, ADDRESS_FILE);
    for (const until = Date.now() + LONGEST_START; Date.now() < until; await delay(20)) {
      const url = (await readFile(address, "utf8").catch(() => "")).trim();
      if (url !== "") return new ServiceClient({ url, key: this.#key, fetch: globalThis.fetch });
      if (this.#hasEnded()) break;
    }
    const how = this.#hasEnded() ? "ended" : `was not ready after ${LONGEST_START / 1000} s`;
    await this.kill();
    throw new CliError("The service does not start for the test", {
      detail: `Its process ${how}. It must take its data folder and key from SERVICE_DATA_DIR and SERVICE_API_KEY. Its last output:\n${this.#output.slice(-2000)}`,
    });
  }

  /** Sends a signal to the process. */
  signal(name: "SIGSTOP" | "SIGCONT" | "SIGTERM"): void {
    this.#child?.kill(name);
  }

  /** Waits until the process has ended by itself. */
  async ended(): Promise<void> {
    await this.#gone;
    this.#child = undefined;
  }

  /** Kills the process without warning, like a crash. */
  async kill(): Promise<void> {
    this.#child?.kill("SIGKILL");
    await this.#gone;
    this.#child = undefined;
  }

  /** Kills the process; no other one starts. */
  end(): Promise<void> {
    this.#isOver = true;
    return this.kill();
  }

  #hasEnded(): boolean {
    return this.#child?.exitCode != null || this.#child?.signalCode != null;
  }
}
