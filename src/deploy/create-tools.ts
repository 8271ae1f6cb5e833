import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { Redactor } from "../core/base/redactor.ts";
import { type NamesOf, refuseUnknown } from "../core/base/refuse-unknown.ts";
import { run } from "./exec.ts";
import { importPeer } from "./import-peer.ts";
import { type Journal, openJournal } from "./journal.ts";
import { proxiedFetch } from "./proxy.ts";
import type { DeployTools } from "./tools.ts";

export interface DeployToolsOptions {
  /** Folder of the project: where optional packages are looked for and programs run. */
  readonly cwd: string;
  /** Where credentials are, and what the programs that it runs are given. @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** The signal of the current step. @default one that never fires */
  readonly signal?: () => AbortSignal;
  /** @default one in memory */
  readonly journal?: Journal;
  /** @default a new one */
  readonly redactor?: {
    add(secret: string | undefined | null): void;
    text(text: string): string;
  };
  /** Receives a platform's messages about the current step, redacted. */
  readonly onReport?: (message: string) => void;
  /** Receives each line that a program writes, redacted. */
  readonly onOutput?: (line: string) => void;
  /** @default the global one, through the proxy of the environment */
  readonly fetch?: typeof fetch;
  readonly now?: () => Date;
  readonly sleep?: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  readonly newId?: () => string;
  /** Called before each change and after each pause; what it rejects with ends the run. */
  readonly guard?: () => Promise<void>;
}

const NAMES: NamesOf<DeployToolsOptions> = {
  ...{ cwd: true, env: true, signal: true, journal: true, redactor: true, onReport: true, onOutput: true },
  ...{ fetch: true, now: true, sleep: true, newId: true, guard: true },
};

/** The tools of a deployment, using this machine's processes, network and clock. */
export function createDeployTools(
  // A command may have loaded a controller, which takes secrets out of the environment of the process.
  options: DeployToolsOptions & Required<Pick<DeployToolsOptions, "env">>,
): DeployTools {
  refuseUnknown(options, NAMES, "createDeployTools");
  const never = new AbortController().signal;
  const {
    cwd,
    env,
    signal = () => never,
    redactor = new Redactor(),
    onReport,
    onOutput,
    now = () => new Date(),
    sleep = pause,
    newId = randomUUID,
    guard,
  } = options;
  const request = options.fetch ?? proxiedFetch(env, fetch);
  const journal = options.journal ?? openJournal({ run: newId(), now, clean: (text) => redactor.text(text) });

  return {
    env,
    get signal() {
      return signal();
    },
    now,
    newId,
    async exec(command, args, execOptions = {}) {
      const { onLine } = execOptions;
      return run(command, args, {
        cwd,
        ...execOptions,
        env: { ...env, ...execOptions.env },
        signal: both(signal(), execOptions.signal),
        onLine: (line) => {
          const clean = redactor.text(line);
          onOutput?.(clean);
          onLine?.(clean);
        },
      });
    },
    async fetch(input, init) {
      const mine = signal();
      mine.throwIfAborted();
      return request(input, { ...init, signal: both(mine, init?.signal ?? undefined) });
    },
    async sleep(milliseconds) {
      const mine = signal();
      mine.throwIfAborted();
      await sleep(milliseconds, mine);
      await guard?.();
    },
    report: (message) => onReport?.(redactor.text(message)),
    importPeer: (name, together = []) => importPeer(name, { cwd, together, development: true }),
    async journal(step, call) {
      await guard?.();
      return journal.record(step, call);
    },
    recall: (step) => journal.recall(step)?.data,
    redact: (secret) => redactor.add(secret),
  };
}

function both(mine: AbortSignal, theirs: AbortSignal | undefined): AbortSignal {
  return theirs === undefined ? mine : AbortSignal.any([mine, theirs]);
}

async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(milliseconds, undefined, { signal });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}
