import { type ChildProcess, fork } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Isolation } from "../../agents/isolate-options.ts";
import { endWithService, removeFolder } from "./end-with-service.ts";
import type { FromAgent, ToAgent } from "./messages.ts";
import { permissionFlags } from "./permissions.ts";

/** Milliseconds between two checks of a process. */
const PACE = 500;
/** Milliseconds for a process to start: it loads the project. */
const START = 60_000;
const PAGE = 4096;
const MEGABYTE = 1024 * 1024;
/** What of the memory is not for the heap. */
const OTHER = 48 * MEGABYTE;

/** Variables without secrets that programs need to find their way. */
const HARMLESS =
  /^(PATH|HOME|USER|LANG|LC_\w+|TZ|TMPDIR|TMP|TEMP|NODE_ENV|NODE_EXTRA_CA_CERTS|SSL_CERT_FILE|SSL_CERT_DIR|no_proxy|NO_PROXY|SystemRoot)$/;

/** The process of an agent has ended by itself, or was ended. */
export class ProcessEndedError extends Error {
  override readonly name = "ProcessEndedError";
}

export interface AgentProcessParts {
  readonly slug: string;
  readonly isolation: Isolation;
  /** Names of the parameters that the agent declares. */
  readonly parameters: readonly string[];
  /** The file that the agent is in. */
  readonly module: string;
  /** Folders that it must not read, such as that of the store. */
  readonly hidden: readonly string[];
  /** Whether it must not use the network once the agent is loaded. */
  readonly isOffline: boolean;
}

/** A process of its own for an agent, with limits: one that takes too much memory or hangs is ended. */
export class AgentProcess {
  readonly slug: string;
  /** Settles once the agent is loaded; rejects with the reason if it cannot be. */
  readonly ready: Promise<void>;
  /** Receives its messages. */
  onMessage: (message: FromAgent) => void = () => {};
  /** Called with how it has ended, such as `exited with code 1`. */
  onEnd: (how: string) => void = () => {};
  readonly #child: ChildProcess;
  readonly #isolation: Isolation;
  readonly #watch: NodeJS.Timeout;
  #endedBy: string | undefined;
  #answeredAt = performance.now();
  #lookedAt = performance.now();
  #pings = 0;
  #pongs = 0;
  /** Called once it has answered as many pings, or has ended. */
  #asking: { readonly pings: number; resolve(): void }[] = [];
  #runs = 0;
  #isReady = false;
  #isOver = false;

  constructor({ slug, isolation, parameters, module, hidden, isOffline }: AgentProcessParts) {
    this.slug = slug;
    this.#isolation = isolation;
    const { permissions } = isolation;
    const temporary = realpathSync(mkdtempSync(join(tmpdir(), "svc-agent-")));
    const heap = Math.max(32, Math.floor((isolation.memory - OTHER) / MEGABYTE));
    this.#child = fork(ENTRY, [], {
      execArgv: [
        ...[...TYPESCRIPT, `--max-old-space-size=${heap}`],
        ...permissionFlags({ agent: slug, permissions, module, entry: ENTRY, temporary, hidden }),
        ...(WATCHES_ITSELF && permissions !== false && !permissions.run ? ["--allow-worker"] : []),
      ],
      env: {
        ...environmentOf(isolation, parameters, { module, slug, isOffline }),
        ...{ TMPDIR: temporary, TMP: temporary, TEMP: temporary },
      },
      // What it prints is seen beside what the service prints.
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    if (!WATCHES_ITSELF) endWithService(this.#child, temporary);
    const ended = new Promise<string>((resolve) => {
      this.#child.once("error", (error) => resolve(`could not be started: ${error.message}`));
      this.#child.once("exit", (code, signal) => resolve(this.#describe(code, signal)));
    });
    const late = setTimeout(() => this.kill(`did not start within ${START / 1000} s`), START).unref();
    this.ready = new Promise<void>((resolve, reject) => {
      this.#child.on("message", (message: FromAgent) => {
        if (message.type === "pong") this.#answered(message.rss);
        else if (message.type !== "ready") this.onMessage(message);
        else if (message.problem === undefined) {
          this.#isReady = true;
          resolve();
        } else this.kill(message.problem);
      });
      void ended.then((how) => reject(new ProcessEndedError(`The process of agent "${slug}" ${how}`)));
    }).finally(() => clearTimeout(late));
    this.ready.catch(() => {});
    this.#watch = setInterval(() => this.#look(), PACE).unref();
    void ended.then((how) => {
      this.#isOver = true;
      if (WATCHES_ITSELF) removeFolder(temporary);
      clearInterval(this.#watch);
      this.onEnd(how);
      this.#answerAsking();
    });
    // It must not keep the service's process from ending.
    this.#child.unref();
    this.#child.channel?.unref();
  }

  get isOver(): boolean {
    return this.#isOver || this.#endedBy !== undefined;
  }

  /** Numbers the runs in this process. */
  nextRun(): number {
    return ++this.#runs;
  }

  send(message: ToAgent): void {
    if (this.#child.connected) this.#child.send(message, () => {});
  }

  /** Ends it immediately. */
  kill(why: string): void {
    this.#endedBy ??= why;
    this.#child.kill("SIGKILL");
  }

  /** Resolves once it has answered, and what it sent before that has arrived, or once it has ended. */
  answers(): Promise<void> {
    return new Promise((resolve) => {
      this.#ping();
      this.#asking.push({ pings: this.#pings, resolve });
      if (this.#isOver) this.#answerAsking();
    });
  }

  #ping(): void {
    this.#pings++;
    this.send({ type: "ping" });
  }

  #answerAsking(): void {
    const isDue = ({ pings }: { readonly pings: number }) => this.#isOver || pings <= this.#pongs;
    const due = this.#asking.filter(isDue);
    this.#asking = this.#asking.filter((one) => !isDue(one));
    for (const { resolve } of due) resolve();
  }

  #answered(rss: number): void {
    this.#answeredAt = performance.now();
    this.#pongs++;
    this.#answerAsking();
    this.#limit(rss);
  }

  #look(): void {
    const now = performance.now();
    // This process was busy itself, or asleep: what the other one has sent may not have been read.
    // While it starts it loads the project, which has its own time.
    if (now - this.#lookedAt > 3 * PACE || !this.#isReady) this.#answeredAt = now;
    this.#lookedAt = now;
    const { timeout } = this.#isolation;
    if (now - this.#answeredAt > timeout) {
      this.kill(`did not answer for ${timeout / 1000} s, as in an endless loop,`);
      return;
    }
    this.#limit(residentBytes(this.#child.pid));
    this.#ping();
  }

  #limit(rss: number | undefined): void {
    if (rss !== undefined && rss > this.#isolation.memory) this.kill(this.#outOfMemory());
  }

  #outOfMemory(): string {
    return `ran out of its ${Math.round(this.#isolation.memory / MEGABYTE)} MB of memory`;
  }

  #describe(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#endedBy !== undefined) return this.#endedBy;
    // Node ends itself so where the heap is full.
    if (signal === "SIGABRT" || code === 134) return this.#outOfMemory();
    return signal === null ? `exited with code ${code}` : `was ended by ${signal}`;
  }
}

const IS_SOURCE = import.meta.url.endsWith(".ts");
const ENTRY = fileURLToPath(new URL(`./agent-main.${IS_SOURCE ? "ts" : "js"}`, import.meta.url));
/** Whether a thread of the process sees that the service is gone: where there is no shell, and where sources are loaded by threads. */
const WATCHES_ITSELF = process.platform === "win32" || IS_SOURCE;
/** What Node needs to load this package's own sources. */
const TYPESCRIPT = IS_SOURCE ? ["--import", registerOfJiti()] : [];

function registerOfJiti(): string {
  const main = createRequire(import.meta.url).resolve("jiti");
  return join(dirname(dirname(main)), "lib/jiti-register.mjs");
}

function environmentOf(
  { env: named }: Isolation,
  parameters: readonly string[],
  { module, slug, isOffline }: Pick<AgentProcessParts, "module" | "slug" | "isOffline">,
): NodeJS.ProcessEnv {
  const own = new Set([...named, ...parameters]);
  const kept = Object.entries(process.env).filter(([name]) => HARMLESS.test(name) || own.has(name));
  return {
    ...Object.fromEntries(kept),
    SVC_AGENT_MODULE: module,
    SVC_AGENT: slug,
    ...(isOffline && { SVC_OFFLINE: "1" }),
    ...(WATCHES_ITSELF && { SVC_WATCHES: "1" }),
  };
}

/** Where the system tells it; else the process itself does, while it answers. */
function residentBytes(pid: number | undefined): number | undefined {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]) * PAGE;
  } catch {
    return undefined;
  }
}
