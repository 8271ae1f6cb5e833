import { generateKeyPairSync } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition } from "agent-control-service";
import { AgentSettings } from "../../src/core/agents/agent-settings.ts";
import { Parameters } from "../../src/core/agents/parameters.ts";
import { AgentRegistry } from "../../src/core/agents/registry.ts";
import { Workspaces } from "../../src/core/agents/workspaces.ts";
import { AuditLog } from "../../src/core/audit/audit-log.ts";
import { Container } from "../../src/core/base/container.ts";
import { createLogger } from "../../src/core/base/log.ts";
import { PassingMap } from "../../src/core/base/passing-map.ts";
import { Redactor } from "../../src/core/base/redactor.ts";
import { WallTimers } from "../../src/core/base/wall-timers.ts";
import { Cases } from "../../src/core/entities/cases.ts";
import { Hooks } from "../../src/core/entities/hooks.ts";
import { Jobs } from "../../src/core/entities/jobs.ts";
import { Ledger } from "../../src/core/entities/ledger.ts";
import { ReceivedEvents } from "../../src/core/entities/received-events.ts";
import { hearOthers } from "../../src/core/entities/touched.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import type { LeaseTimes } from "../../src/core/runs/cluster/membership.ts";
import { createRunner } from "../../src/core/runs/create-runner.ts";
import { Emissions } from "../../src/core/runs/emissions/emissions.ts";
import type { Runner } from "../../src/core/runs/runner.ts";
import type { RunnerParts } from "../../src/core/runs/runner-parts.ts";
import { type Keyring, NO_KEYS } from "../../src/core/store/encryption/keyring.ts";
import { sealStore } from "../../src/core/store/encryption/sealed-store.ts";
import type { Change } from "../../src/core/store/engine/backend.ts";
import { createStoreTables, TransactionalStore } from "../../src/core/store/engine/transactional-store.ts";
import { createMemoryStore, MemoryBackend } from "../../src/core/store/memory-store.ts";
import type { Store, StoreFactory, Transaction, TransactionOptions } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { emptyPostgresStore, onePostgresStore } from "../_postgres.ts";
import { jobContext } from "./_jobs.ts";

const rsaPrivateKey = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
}).privateKey;
const parameters = new Parameters({ rsaPrivateKeys: [rsaPrivateKey] }, new Redactor(), {
  env: {},
});
const never = <T>() => new Promise<T>(() => {});

export const JOB = "job-1";

const builds = new WeakMap<AgentDefinition, number>();
let lastBuild = 0;

/** Each definition is code of its own, also where its functions have the same source. */
function buildOf(agent: AgentDefinition): number {
  const known = builds.get(agent) ?? ++lastBuild;
  builds.set(agent, known);
  return known;
}

/** A process that runs jobs: it can end at any write, which it then has not heard of. */
export class Life {
  readonly runner: Runner;
  /** What the runner is made of. */
  readonly parts: RunnerParts;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly hooks: Hooks;
  /** Lines of its log. */
  readonly logs: string[] = [];
  /** Settles when it has died. */
  readonly died: Promise<void>;
  isDead = false;
  /** Transactions so far. */
  writes = 0;
  #die = () => {};
  #thawed: Promise<void> | undefined;

  /**
   * Dies at the write that makes the log of the job so long, or a while after it; or at a write of that number. Without
   * `suspendAfter` its jobs stay in memory.
   */
  constructor(
    store: Store,
    agents: AgentDefinition | readonly AgentDefinition[],
    options: {
      diesAt?: number;
      diesAtWrite?: number;
      strictSteps?: boolean;
      clock?: () => Date;
      most?: number;
      workspaces?: ConstructorParameters<typeof Workspaces>[0];
      suspendAfter?: number | undefined;
      /** With others over one store at the same time. */
      shared?: Partial<LeaseTimes>;
    } = {},
  ) {
    const {
      diesAt = Number.POSITIVE_INFINITY,
      diesAtWrite = Number.POSITIVE_INFINITY,
      suspendAfter,
      strictSteps = false,
      clock = () => new Date(),
      most = 10,
      workspaces,
      shared,
    } = options;
    let writes = 0;
    let bury = () => {};
    this.died = new Promise((resolve) => {
      // A write that was under way at its death is stored before another process finds the store.
      bury = () => {
        if (this.isDead && writes === 0) resolve();
      };
    });
    this.#die = () => {
      this.isDead = true;
      bury();
    };
    const mortal: Store = {
      table: (name) => store.table(name),
      log: (name) => store.log(name),
      health: () => store.health(),
      stats: () => store.stats(),
      close: () => store.close(),
      hints: store.hints,
      ...(shared && { isShared: true }),
      // One that has died looks around no longer.
      now: () => (this.isDead ? never() : store.now()),
      transaction: async <T>(
        work: (tx: Transaction) => Promise<T>,
        fenced?: TransactionOptions,
      ): Promise<T> => {
        while (this.#thawed) await this.#thawed;
        writes++;
        let length = 0;
        try {
          return await store.transaction(async (tx) => {
            if (this.isDead) throw new Error("dead");
            const result = await work(tx);
            // Not by a read after it: the results of writes must come in their order.
            if (diesAt !== Number.POSITIVE_INFINITY) length = await tx.last("Run", JOB);
            return result;
          }, fenced);
        } finally {
          if (++this.writes >= diesAtWrite || length >= diesAt) this.die();
          writes--;
          if (this.isDead) {
            bury();
            await never();
          }
        }
      },
    };
    const redactor = new Redactor();
    const write = (line: string) => void (this.isDead || this.logs.push(line));
    const log = createLogger({ level: "info", format: "text", redactor, clock, write });
    this.hooks = new Hooks((name, error) => log.error("an observer failed", { hook: name, error }));
    const ledger = new Ledger(mortal, this.hooks, clock, redactor);
    const liveCosts = {};
    if (shared) void this.died.then(hearOthers(mortal, this.hooks, { poll: shared.look ?? 1000 }));
    this.jobs = new Jobs(mortal, liveCosts);
    this.cases = new Cases(mortal);
    const audit = new AuditLog({ store: mortal, ledger, redactor, log });
    this.parts = {
      agents: new AgentRegistry([agents].flat(), () => [agents].flat().map(buildOf).join()),
      ...{
        jobs: this.jobs,
        liveCosts,
        cases: this.cases,
        received: new ReceivedEvents(mortal),
        ledger,
        hooks: this.hooks,
        log,
        redactor,
        emissions: new Emissions(redactor),
        clock,
        startTimer: new WallTimers(clock).start,
        deletedKeep: 30 * 86_400_000,
        strictSteps,
        suspendAfter,
      },
      parameters,
      settings: new AgentSettings(mortal, ledger, audit),
      audit,
      store: mortal,
      schedules: [],
      leaseTimes: shared,
      get: (token) => new Container().get(token),
      ...{ apiUrl: null, workspace: "local", maxConcurrentJobs: most, maxQueuedJobs: most, stopGrace: 1 },
      workspaces: new Workspaces(workspaces),
    };
    this.runner = createRunner(this.parts);
  }

  die(): void {
    this.#die();
  }

  /** Holds all of its writes back until the result is called. */
  freeze(): () => void {
    let thaw = () => {};
    this.#thawed = new Promise((resolve) => {
      thaw = () => {
        this.#thawed = undefined;
        resolve();
      };
    });
    return thaw;
  }

  start(fields: Record<string, unknown> = {}): Promise<StoredJob> {
    return this.runner.start("worker", { job_context: jobContext(JOB), job_fields: fields });
  }

  resume(): Promise<void> {
    return this.runner.reconcile();
  }

  /** The job at its end, or held; nothing where the process died before. */
  async ended(milliseconds = 60_000): Promise<StoredJob | undefined> {
    let look = (_job: StoredJob | undefined): void => {};
    const held = new Promise<StoredJob>((resolve) => {
      look = (job) => void (job?.id === JOB && job.held && resolve(job));
    });
    const off = this.hooks.on("job:changed", ({ job }) => look(job));
    look(await this.jobs.find(JOB));
    try {
      return await Promise.race([
        this.runner.ended(JOB, milliseconds),
        held,
        this.died.then(() => undefined),
      ]);
    } finally {
      off();
    }
  }

  async entries(): Promise<RunEntry[]> {
    return (await this.jobs.log(JOB)).map(({ entry }) => entry);
  }
}

/** An empty store, as a process finds it: in memory, or with `SVC_TEST_STORE=postgres` in a database. */
export function emptyStore(): Promise<Store> {
  if (process.env.SVC_TEST_STORE === "postgres") return emptyPostgresStore();
  const log = { info: () => {}, warn: () => {}, error: () => {} };
  return createMemoryStore({ tables: CORE_TABLES, dataDir: "", log });
}

/** One empty store, to be opened as several processes have it; `close` closes all of them. */
export async function oneStore(): Promise<{ open(): Promise<Store>; close(): Promise<void> }> {
  if (process.env.SVC_TEST_STORE === "postgres") return onePostgresStore();
  const store = await emptyStore();
  return { open: async () => store, close: () => store.close() };
}

/** A store, parts of which are others. */
export const withParts = (store: Store, parts: Partial<Store>): Store =>
  new Proxy(store, {
    get: (_, name) => {
      const member: unknown = Reflect.get(name in parts ? parts : store, name);
      return typeof member === "function" ? member.bind(store) : member;
    },
  });

/** Waits until a life has died; to the others of its store, it was dead for long. */
export async function bury(life: Life, store: Store, id = life.runner.instance!): Promise<void> {
  const longAgo = new Date(Date.now() - 60_000).toISOString();
  await life.died;
  await store.table("Instance").change(id, (row) => ({ ...row, seen_at: longAgo }));
}

/** A store in memory, and what it held after each of its writes, as a process finds it that was killed then. */
export class RecordedStore {
  readonly #writes: (readonly Change[])[] = [];
  readonly #backend: MemoryBackend;
  readonly #keys: Keyring;

  #onWrite: (write: number, lines: number) => void = () => {};

  constructor(keys: Keyring = NO_KEYS) {
    const writes = this.#writes;
    const written = (lines: number) => this.#onWrite(writes.length, lines);
    this.#keys = keys;
    this.#backend = new (class extends MemoryBackend {
      override commit(changes: readonly Change[], done: (error?: Error) => void): void {
        writes.push(changes);
        super.commit(changes, (error) => {
          written(this.lastOf({ name: "Run", pending: new PassingMap() }, JOB));
          done(error);
        });
      }
    })();
  }

  /** `onWrite` gets the number of each write, and the length of the job's log after it, before anyone hears of it. */
  async open(onWrite: (write: number, lines: number) => void): Promise<Store> {
    const store = await this.#open(this.#backend);
    this.#onWrite = onWrite;
    return store;
  }

  /** Another store with what this one held after its first `writes` writes. */
  after(writes: number): Promise<Store> {
    const backend = new MemoryBackend();
    return this.#open(backend, (tables) => {
      const moved = (change: Change): Change =>
        "table" in change ? { ...change, table: tables.get(change.table.name)! } : change;
      for (const changes of this.#writes.slice(0, writes)) backend.commit(changes.map(moved), () => {});
    });
  }

  #open(
    backend: MemoryBackend,
    fill: (tables: ReturnType<typeof createStoreTables>) => void = () => {},
  ): Promise<Store> {
    const factory: StoreFactory = async (context) => {
      const tables = createStoreTables(context.tables);
      fill(tables);
      return new TransactionalStore({ tables, backend });
    };
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    return sealStore(factory, this.#keys)({ tables: CORE_TABLES, dataDir: "", log });
  }
}

/** Runs a job undisturbed, then again for each line of its log, at which the process dies, and is resumed. */
export async function everyDeath(
  agent: (life: () => Life) => AgentDefinition,
  { strictSteps = false, onLife = () => {} }: { strictSteps?: boolean; onLife?: (life: Life) => void } = {},
): Promise<{ undisturbed: StoredJob; resumed: StoredJob[]; entries: RunEntry[][] }> {
  let current: Life;
  const live = async (store: Store, diesAt?: number) => {
    current = new Life(
      store,
      agent(() => current),
      { diesAt, strictSteps },
    );
    onLife(current);
    return current;
  };
  const first = await live(await emptyStore());
  await first.start();
  const undisturbed = (await first.ended())!;
  const lines = (await first.entries()).length;
  const resumed: StoredJob[] = [];
  const entries: RunEntry[][] = [];
  for (let diesAt = 2; diesAt < lines; diesAt++) {
    const store = await emptyStore();
    const one = await live(store, diesAt);
    await Promise.race([one.start(), one.died]);
    if ((await one.ended()) !== undefined) continue;
    // What the process was about to do when it died does not reach the next one.
    await delay(0);
    const other = await live(store);
    await other.resume();
    resumed.push((await other.ended())!);
    entries.push(await other.entries());
  }
  return { undisturbed, resumed, entries };
}
