import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { CaseHandle, ChildHandle, JobHandle } from "agent-control-service";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Actor } from "../../src/core/audit/caller.ts";
import type { StoredJob } from "../../src/core/models/job.ts";
import type { CallEntry } from "../../src/core/models/run-entry.ts";
import type { Runner } from "../../src/core/runs/runner.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import type { Store, Transaction } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext, NO_LIMITS } from "./_jobs.ts";
import { bury, emptyStore, JOB, Life, withParts } from "./_lives.ts";

const LEASE = { beat: 50, dead: 30_000, giveUp: 600_000, look: 600_000 };

async function folderStore(): Promise<Store> {
  const dataDir = mkdtempSync(join(tmpdir(), "ends-once-"));
  const log = { info() {}, warn() {}, error() {} };
  const store = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
  onTestFinished(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return store;
}

/** A store that holds the acknowledgment of the first write that changes something so: it is stored, and nobody knows. */
function holding(store: Store, isIt: (table: string, after: unknown) => boolean) {
  const [stored, release] = [gate(), gate()];
  let isHeld = false;
  const watched = (tx: Transaction, found: () => void): Transaction =>
    new Proxy(tx, {
      get: (_, name) => {
        if (name === "change")
          return (table: never, id: string, fn: (item: unknown) => unknown) =>
            tx.change(table, id, ((item: unknown) => {
              const after = fn(item);
              if (isIt(table, after)) found();
              return after;
            }) as never);
        if (name === "append")
          return (log: string, key: string, entry: unknown) => {
            if (isIt(log, entry)) found();
            return tx.append(log as never, key, entry as never);
          };
        const member: unknown = Reflect.get(tx, name, tx);
        return typeof member === "function" ? member.bind(tx) : member;
      },
    });
  const transaction: Store["transaction"] = async (work, options) => {
    let isFound = false;
    const result = await store.transaction((tx) => {
      isFound = false;
      return work(watched(tx, () => (isFound = true)));
    }, options);
    if (isFound && !isHeld) {
      isHeld = true;
      stored.open();
      await release.opened;
    }
    return result;
  };
  return { store: withParts(store, { transaction }), stored: stored.opened, release: release.open };
}

const OPERATOR: Actor = { kind: "user", id: "u-1", name: "Ada" } as never;
const isCancelling = (table: string, row: unknown) =>
  table === "Job" && (row as StoredJob).status === "cancelling";

/** What decides how the child ends. */
interface Decision {
  /** What the handler of its parent does about it. */
  readonly parent?: (child: ChildHandle<never>) => unknown;
  /** What others do. */
  readonly others?: (runner: Runner, id: string) => Promise<unknown>;
  readonly stop_reason: string;
  readonly error: string;
}

const DECISIONS: Record<string, Decision> = {
  "the failure of its parent": {
    parent: () => Promise.reject(new Error("broken")),
    stop_reason: "parent_ended",
    error: `The job was stopped: its parent "${JOB}" failed`,
  },
  "the handler of its parent": {
    parent: (child) => child.stop(),
    stop_reason: "stopped",
    error: `The job was stopped by its parent "${JOB}"`,
  },
  "a person": {
    others: (runner, id) => runner.stop(id, OPERATOR),
    stop_reason: "stopped",
    error: "The job was stopped",
  },
  "the status that an operator sets": {
    others: (runner, id) => runner.override(id, "cancelling", OPERATOR),
    stop_reason: "stopped",
    error: "The job was stopped",
  },
};

const FINISHES = {
  returns: { run: (): unknown => ({ total: 3 }), result: { total: 3 } },
  throws: { run: (): unknown => Promise.reject(new Error("The child is broken")), result: null },
};

/** A parent and its child, whose handler finishes when it may. */
async function family(store: Store, { decision, finish, shared }: FamilyOptions) {
  const [running, decide, end] = [gate(), gate(), gate()];
  let isRetried = false;
  const child = agentOf(
    async ({ job }) => {
      const item = await job.openCase({ id: "case-1", name: "A case" });
      await item.update({ name: "begun" });
      running.open();
      await end.opened;
      return isRetried ? "done" : finish();
    },
    { name: "Child" },
  );
  const parent = agentOf(async ({ job }) => {
    const started = await job.start(child);
    await job.step("decide", () => decide.opened);
    if (!isRetried) await decision.parent?.(started as ChildHandle<never>);
    return started.result();
  });
  const held = holding(store, isCancelling);
  const life = new Life(held.store, [parent, child], { shared });
  await life.resume();
  await life.start();
  await running.opened;
  const [{ id }] = (await life.jobs.list({ where: { parent_id: JOB } })).items as [StoredJob];
  const retry = async () => {
    isRetried = true;
    await life.runner.retry(JOB, "last_step", OPERATOR);
    return life.runner.ended(JOB, 60_000);
  };
  return { life, id, held, decide, end, retry };
}

interface FamilyOptions {
  readonly decision: Decision;
  readonly finish: () => unknown;
  readonly shared?: typeof LEASE | undefined;
}

/** What reaches a limit, the limit, and its entry in the log. */
const LIMITS: Record<
  string,
  [reach: (item: CaseHandle, job: JobHandle) => unknown, reason: string, call: string]
> = {
  "an update with an error": [(item) => item.update({ error: "wrong" }), "stop_on_error", "update"],
  "an update with a warning": [(item) => item.update({ warning: true }), "stop_on_warning", "update"],
  "the cost of an update": [(item) => item.update({ cost: 3 }), "max_cost", "update"],
  "the cost of the end of a case": [(item) => item.close({}, { cost: 3 }), "max_cost", "close"],
  "a case that failed": [(item) => item.fail("wrong"), "stop_on_error", "close"],
  "the cost that a step reports": [
    (_, job) => job.step("pay", ({ report }) => report({ cost: 3 })),
    "max_cost",
    "step",
  ],
  "a question that nobody answers": [
    (item) => item.ask({ question: "Which?", fields: [{ name: "text" }], deadline: "10ms" }),
    ...(["question_expired", "ask"] as const),
  ],
};

/** A job that reaches a limit, and whose handler finishes when it may, whatever becomes of that. */
function limited(store: Store, [reach, , call]: (typeof LIMITS)[string]) {
  const end = gate();
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "case-1", name: "A case" });
    const reached = Promise.resolve(reach(item, job)).then(
      () => {},
      () => {},
    );
    await Promise.race([reached, end.opened]);
    return "done";
  });
  const held = holding(
    store,
    (log, entry) =>
      log === "Run" && (entry as CallEntry).call === call && (entry as CallEntry).type === "call",
  );
  const start = async (shared?: typeof LEASE) => {
    const life = new Life(held.store, agent, { shared });
    await life.resume();
    return life;
  };
  const job_instructions = { ...NO_LIMITS, stop_on_error: true, stop_on_warning: true, max_cost: 2 };
  const request = { job_context: jobContext(JOB, { job_instructions }), job_fields: {} };
  return { held, end, start, request, agent };
}

describe.each([
  ["a folder", folderStore, undefined],
  ["a shared store", emptyStore, LEASE],
] as const)("on %s", (_, open, shared) => {
  for (const [who, decision] of Object.entries(DECISIONS)) {
    for (const [how, { run: finish, result }] of Object.entries(FINISHES)) {
      test(`a job that is stopped by ${who} keeps that reason where its handler ${how} before it knows`, async () => {
        const { life, id, held, decide, end } = await family(await open(), { decision, finish, shared });
        const others = decision.others?.(life.runner, id);
        decide.open();
        await held.stored;

        end.open();
        const job = await life.runner.ended(id, 60_000);
        held.release();
        await others;

        const { stop_reason, error } = decision;
        expect(job).toMatchObject({ status: "cancelled", stop_reason, error, result });
        expect(job.responses.at(-1)).toMatchObject({ status: "cancelled", error_message: error });
        const [item] = (await life.cases.list({ where: { job_id: id } })).items;
        expect(item).toMatchObject({ status: "cancelled" });
        await life.runner.close(0);
      });
    }

    test(`a job that is stopped by ${who} keeps that reason where the process dies before its run knows`, async () => {
      const store = await open();
      const { life, id, held, decide } = await family(store, { decision, finish: () => "done", shared });
      void decision.others?.(life.runner, id);
      decide.open();
      await held.stored;
      life.die();
      held.release();
      if (shared) await bury(life, store);

      const next = new Life(
        store,
        life.parts.agents.list().map(({ definition }) => definition),
        { shared },
      );
      await next.resume();

      const { stop_reason, error } = decision;
      expect(await next.runner.ended(id, 60_000)).toMatchObject({ status: "cancelled", stop_reason, error });
      await next.runner.close(0);
    });
  }

  test("a parent that is retried runs the child again that was stopped with it while its handler returned", async () => {
    const decision = DECISIONS["the failure of its parent"]!;
    const { life, id, held, decide, end, retry } = await family(await open(), {
      ...{ decision, shared },
      finish: () => "too late",
    });
    decide.open();
    await held.stored;
    end.open();
    await life.runner.ended(id, 60_000);
    held.release();

    expect(await retry()).toMatchObject({ status: "completed", result: "done" });
    await life.runner.close(0);
  });

  for (const [what, limit] of Object.entries(LIMITS)) {
    test(`${what} ends the job also where its handler returns before it knows`, async () => {
      const { held, end, start, request } = limited(await open(), limit);
      const life = await start(shared);
      await life.runner.start("worker", request);
      await held.stored;

      end.open();
      await new Promise((resolve) => setTimeout(resolve, 20));
      held.release();

      expect(await life.ended()).toMatchObject({ status: "failed", stop_reason: limit[1] });
      await life.runner.close(0);
    });

    test(`${what} ends the job also where the process dies before that is stored`, async () => {
      const store = await open();
      const { held, start, request } = limited(store, limit);
      const life = await start(shared);
      await life.runner.start("worker", request);
      await held.stored;
      life.die();
      held.release();
      if (shared) await bury(life, store);

      const next = await start(shared);

      expect(await next.ended()).toMatchObject({ status: "failed", stop_reason: limit[1] });
      if (limit[1] === "question_expired") return next.runner.close(0);
      // A person who runs it again decides that it does not count.
      await next.runner.resume(
        JOB,
        { max_cost: null, stop_on_error: false, stop_on_warning: false },
        OPERATOR,
      );
      expect(await next.ended()).toMatchObject({ status: "completed", result: "done" });
      await next.runner.close(0);
    });
  }
});

test("a job that another instance has stopped keeps that reason where its handler returns before its run knows", async () => {
  const store = withParts(await emptyStore(), { hints: { tell() {}, on: () => () => {} } });
  const [running, end] = [gate(), gate()];
  const agent = agentOf(async () => {
    running.open();
    await end.opened;
    return "too late";
  });
  const [here, there] = [new Life(store, agent, { shared: LEASE }), new Life(store, [], { shared: LEASE })];
  await here.resume();
  await there.resume();
  await here.start();
  await running.opened;

  await there.runner.stop(JOB, OPERATOR);
  end.open();

  const stopped = {
    status: "cancelled",
    stop_reason: "stopped",
    error: "The job was stopped",
    result: "too late",
  };
  expect(await here.ended()).toMatchObject(stopped);
  await Promise.all([here.runner.close(0), there.runner.close(0)]);
});

test("a job that is stopped is not held where its handler leaves its record before it knows", async () => {
  const store = await emptyStore();
  const first: Life = new Life(
    store,
    agentOf(async ({ job }) => {
      await job.step("first", () => 1);
      await job.step("second", () => {
        first.die();
        return new Promise(() => {});
      });
    }),
  );
  await first.start();
  await first.died;
  const [running, end] = [gate(), gate()];
  const held = holding(store, isCancelling);
  const life = new Life(
    held.store,
    agentOf(async () => {
      running.open();
      await end.opened;
    }),
  );
  await life.resume();
  await running.opened;
  const stopping = life.runner.stop(JOB, OPERATOR);
  await held.stored;

  end.open();

  const stopped = { status: "cancelled", stop_reason: "stopped", error: "The job was stopped", held: null };
  expect(await life.runner.ended(JOB, 60_000)).toMatchObject(stopped);
  held.release();
  await stopping;
  await life.runner.close(0);
});
