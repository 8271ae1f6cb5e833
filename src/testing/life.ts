import type { AgentDefinition } from "../core/agents/define-agent.ts";
import type { Container } from "../core/base/container.ts";
import type { RunEntry } from "../core/models/run-entry.ts";
import type { Runner } from "../core/runs/runner.ts";
import { createScope } from "../core/service/create-scope.ts";
import { resolveOptions } from "../core/service/options.ts";
import { JOBS, KEYS, RUNNER, STORE } from "../core/service/tokens.ts";
import { createMemoryStore } from "../core/store/memory-store.ts";
import type { Store } from "../core/store/store.ts";
import { CORE_TABLES } from "../core/store/tables.ts";
import type { TestProcess } from "./drive-job.ts";
import { type Crash, MortalStore } from "./mortal-store.ts";
import { sharedRsaKey } from "./rsa-key.ts";
import { TestClock } from "./test-clock.ts";

export const JOB = "job-1";

const API_KEY = "the-key-of-a-test-that-no-one-else-has";

export interface LifeOptions {
  readonly agents: readonly AgentDefinition[];
  readonly store: Store;
  /** How far its clock is ahead, in milliseconds. */
  readonly ahead: number;
  readonly crash?: Crash;
  readonly isWorking: () => boolean;
}

/** A process that runs the jobs of agents, on a store that earlier ones have used. */
export class Life implements TestProcess {
  readonly clock: TestClock;
  readonly logs: string[] = [];
  readonly isWorking: () => boolean;
  readonly store: MortalStore;
  readonly #scope: Container;

  constructor({ agents, store, ahead, crash, isWorking }: LifeOptions) {
    this.clock = new TestClock(ahead);
    this.isWorking = isWorking;
    this.store = new MortalStore(store, crash);
    this.#scope = createScope(
      resolveOptions({
        agents,
        apiKey: API_KEY,
        logLevel: "warn",
        logFormat: "text",
        strictSteps: true,
        build: "test",
        stopGrace: 1,
        // Each line is interrupted anyway, and a replay is the same after that.
        suspendAfter: false,
        clock: this.clock.now,
        startTimer: this.clock.startTimer,
        logTo: (line) => void (this.store.isDead || this.logs.push(line)),
      }),
    );
    this.#scope.value(STORE, this.store);
    this.#scope.value(KEYS, {
      ...{ apiKey: API_KEY, apiKeyGenerated: false },
      get rsaPrivateKeys(): readonly [string] {
        return [sharedRsaKey()];
      },
    });
  }

  get runner(): Runner {
    return this.#scope.get(RUNNER);
  }

  async entries(): Promise<RunEntry[]> {
    return (await this.#scope.get(JOBS).log(JOB)).map(({ entry }) => entry);
  }

  /** Its further work is ignored. */
  end(): void {
    this.store.die();
    this.clock.stop();
  }
}

/** An empty store. */
export function emptyStore(): Promise<Store> {
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  return createMemoryStore({ tables: CORE_TABLES, dataDir: "", log });
}
