import type { AgentDefinition } from "../core/agents/define-agent.ts";
import type { Container } from "../core/base/container.ts";
import type { StoredCase } from "../core/models/case.ts";
import type { StoredJob } from "../core/models/job.ts";
import type { RunEntry } from "../core/models/run-entry.ts";
import type { Runner } from "../core/runs/runner.ts";
import { resolveOptions } from "../core/service/options.ts";
import { createScope } from "../core/service/service.ts";
import { JOBS, KEYS, RUNNER, STORE } from "../core/service/tokens.ts";
import { createMemoryStore } from "../core/store/memory-store.ts";
import type { Store } from "../core/store/store.ts";
import { CORE_TABLES } from "../core/store/tables.ts";
import { type Crash, MortalStore } from "./mortal-store.ts";
import { sharedRsaKey } from "./rsa-key.ts";
import { TestClock } from "./test-clock.ts";

export const JOB = "job-1";

/** Turns of the event loop without news, after which a job is taken to wait for time or for an answer. */
const QUIET = 4;
/** The same while a step's function runs, in turns of at least a millisecond. */
const QUIET_WORKING = 250;

const API_KEY = "the-key-of-a-test-that-no-one-else-has";

export interface LifeOptions {
  readonly agents: readonly AgentDefinition[];
  readonly store: Store;
  /** How far its clock is ahead, in milliseconds. */
  readonly ahead: number;
  readonly crash?: Crash;
  readonly isWorking: () => boolean;
}

/** A process that runs the jobs of agents, on a store that others have had before. */
export class Life {
  readonly clock: TestClock;
  readonly logs: string[] = [];
  readonly #store: MortalStore;
  readonly #scope: Container;
  readonly #isWorking: () => boolean;

  constructor({ agents, store, ahead, crash, isWorking }: LifeOptions) {
    this.clock = new TestClock(ahead);
    this.#store = new MortalStore(store, crash);
    this.#isWorking = isWorking;
    this.#scope = createScope(
      resolveOptions({
        agents,
        apiKey: API_KEY,
        rsaPrivateKey: sharedRsaKey(),
        logLevel: "warn",
        logFormat: "text",
        strictSteps: true,
        stopGrace: 1,
        clock: this.clock.now,
        startTimer: this.clock.startTimer,
        logTo: (line) => void (this.#store.isDead || this.logs.push(line)),
      }),
    );
    this.#scope.value(STORE, this.#store);
    this.#scope.value(KEYS, { apiKey: API_KEY, rsaPrivateKey: sharedRsaKey(), apiKeyGenerated: false });
  }

  get runner(): Runner {
    return this.#scope.get(RUNNER);
  }

  get isDead(): boolean {
    return this.#store.isDead;
  }

  get died(): Promise<void> {
    return this.#store.died;
  }

  /** Whether the job is stored. */
  async exists(): Promise<boolean> {
    return (await this.#store.table("Job").get(JOB)) !== undefined;
  }

  async job(): Promise<StoredJob> {
    return this.#scope.get(JOBS).get(JOB);
  }

  async cases(): Promise<readonly StoredCase[]> {
    return (await this.#store.table("Case").list({ where: { job_id: JOB }, limit: 10_000 })).items;
  }

  async entries(): Promise<RunEntry[]> {
    return (await this.#scope.get(JOBS).log(JOB)).map(({ entry }) => entry);
  }

  /** Waits until nothing more happens without time passing or an answer, or the process has died. */
  async settled(): Promise<void> {
    let seen = -1;
    for (let quiet = 0; !this.isDead; quiet++) {
      const isWorking = this.#isWorking();
      if (quiet >= (isWorking ? QUIET + QUIET_WORKING : QUIET)) return;
      // A wait of its own for what a step waits for: on a busy machine both come late.
      if (isWorking && quiet > QUIET) await new Promise((resolve) => setTimeout(resolve, 1));
      else await new Promise((resolve) => setImmediate(resolve));
      if (this.#store.activity === seen && !this.#store.isBusy) continue;
      seen = this.#store.activity;
      quiet = 0;
    }
  }

  /** Nothing that it still does counts. */
  end(): void {
    this.#store.die();
    this.clock.stop();
  }
}

/** A store with nothing in it. */
export function emptyStore(): Promise<Store> {
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  return createMemoryStore({ tables: CORE_TABLES, dataDir: "", log });
}
