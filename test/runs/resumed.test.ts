import { setTimeout as delay } from "node:timers/promises";
import type { AgentDefinition, JobStartContext } from "agent-control-service";
import { expect, test } from "vitest";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

/** Runs a job until `isOver` holds of its log, and ends the process. */
async function liveUntil(
  store: Store,
  agent: AgentDefinition,
  isOver: (entries: RunEntry[]) => boolean,
): Promise<Life> {
  const life = new Life(store, agent);
  if (await life.jobs.find(JOB)) await life.resume();
  else await life.start();
  while (!isOver(await life.entries())) await delay(2);
  life.die();
  await delay(0);
  return life;
}

async function liveOn(store: Store, agent: AgentDefinition, clock?: () => Date) {
  const life = new Life(store, agent, clock ? { clock } : {});
  await life.resume();
  return { life, job: (await life.ended())!, entries: await life.entries() };
}

const calls = (entries: RunEntry[]) => entries.filter(({ type }) => type === "call").length;

test("attempt counts only the step that was running when the process ended", async () => {
  const attempts: string[] = [];
  let isFirst = true;
  const agent = agentOf(async ({ job }) => {
    for (let n = 1; n <= 6; n++) {
      await job.step("round", ({ attempt }) => {
        attempts.push(`${n}: ${attempt}`);
        if (n === 3 && isFirst) return new Promise(() => {});
      });
    }
  });
  const store = await emptyStore();
  await liveUntil(store, agent, () => attempts.includes("3: 1"));
  isFirst = false;

  const { job, entries } = await liveOn(store, agent);

  expect(job.status).toBe("completed");
  expect(attempts).toEqual(["1: 1", "2: 1", "3: 1", "3: 2", "4: 1", "5: 1", "6: 1"]);
  const recorded = entries.flatMap((entry) => (entry.type === "call" ? [entry.attempts ?? 1] : []));
  expect(recorded).toEqual([1, 1, 2, 1, 1, 1]);
});

test("attempt counts each end of the process for concurrent steps that were running", async () => {
  const attempts: string[] = [];
  let life = 1;
  const agent = agentOf(async ({ job }) => {
    const slow = job.step("slow", ({ attempt }) => {
      attempts.push(`slow ${attempt}`);
      return life < 3 ? new Promise(() => {}) : "slow";
    });
    for (let n = 1; n <= 4; n++) {
      await job.step(`quick ${n}`, ({ attempt }) => {
        attempts.push(`quick ${n} ${attempt}`);
        if (n > 2 * life - 1 && life < 3) return new Promise(() => {});
      });
    }
    await slow;
  });
  const store = await emptyStore();
  await liveUntil(store, agent, () => attempts.includes("quick 2 1"));
  life = 2;
  await liveUntil(store, agent, () => attempts.includes("quick 4 1"));
  life = 3;

  const { job } = await liveOn(store, agent);

  expect(job.status).toBe("completed");
  expect(attempts).toEqual([
    ...["slow 1", "quick 1 1", "quick 2 1"],
    ...["slow 2", "quick 2 2", "quick 3 1", "quick 4 1"],
    ...["slow 3", "quick 4 2"],
  ]);
});

test("a restart during the pause before another attempt waits for the rest of the pause, and does not count as an attempt", async () => {
  const attempts: number[] = [];
  const agent = agentOf(({ job }) =>
    job.step(
      "flaky",
      ({ attempt }) => {
        attempts.push(attempt);
        if (attempt < 2) throw new Error("busy");
        return attempt;
      },
      { retries: 3, backoff: { initial: "60s" } },
    ),
  );
  const store = await emptyStore();
  const first = await liveUntil(store, agent, (entries) => entries.some(({ type }) => type === "attempt"));
  const failed = (await first.entries()).find(({ type }) => type === "attempt") as { next_at: string };
  // Another process finds the pause in progress, and a third finds it over.
  const second = new Life(store, agent);
  await second.resume();
  await delay(50);
  const afterSecond = [...attempts];
  second.die();
  await delay(0);
  const { job, entries } = await liveOn(store, agent, () => new Date(Date.parse(failed.next_at) + 1));

  expect(Date.parse(failed.next_at) - Date.now()).toBeGreaterThan(30_000);
  expect(afterSecond).toEqual([1]);
  expect(job.status).toBe("completed");
  expect(attempts).toEqual([1, 2]);
  expect(entries.filter(({ type }) => type === "begun")).toMatchObject([{ name: "flaky", attempt: 2 }]);
});

test("another attempt that the process interrupted counts, and is started again without another pause", async () => {
  const attempts: number[] = [];
  const agent = agentOf(({ job }) =>
    job.step(
      "flaky",
      ({ attempt }) => {
        attempts.push(attempt);
        if (attempt === 1) throw new Error("busy");
        return attempt === 2 ? new Promise(() => {}) : attempt;
      },
      { retries: 3, backoff: { initial: "1ms" } },
    ),
  );
  const store = await emptyStore();
  await liveUntil(store, agent, () => attempts.includes(2));

  const { job } = await liveOn(store, agent);

  expect(job).toMatchObject({ status: "completed", result: 3 });
  expect(attempts).toEqual([1, 2, 3]);
});

test("a handler's log lines are not repeated while its calls are replayed", async () => {
  const begun = gate();
  let isFirst = true;
  const agent = agentOf(async ({ job, log }) => {
    const bound = log.with({ part: "one" });
    for (let n = 1; n <= 4; n++) {
      await job.step("round", () => {
        if (n < 4 || !isFirst) return n;
        begun.open();
        return new Promise(() => {});
      });
      log.info(`round ${n} is done`);
      bound.warn(`still ${n}`);
    }
  });
  const store = await emptyStore();
  const first = new Life(store, agent);
  await first.start();
  await begun.opened;
  first.die();
  isFirst = false;

  const { life } = await liveOn(store, agent);

  const lines = (one: Life) => one.logs.filter((line) => /round|still/.test(line)).length;
  expect(lines(first)).toBe(6);
  expect(lines(life)).toBe(2);
  expect(life.logs.join("")).toContain("round 4 is done");
});

type Handler = (context: JobStartContext) => Promise<unknown>;

const steps =
  (...names: string[]): Handler =>
  async ({ job }) => {
    const all: string[] = [];
    for (const name of names)
      all.push(await job.step(name, () => (name === "stop" ? new Promise<string>(() => {}) : name)));
    return all;
  };

test("a step that was removed from the code is skipped, with a warning", async () => {
  const store = await emptyStore();
  await liveUntil(store, agentOf(steps("a", "b", "c", "stop")), (entries) => calls(entries) === 3);

  const { job, life } = await liveOn(store, agentOf(steps("a", "c")));

  expect(job).toMatchObject({ status: "completed", result: ["a", "c"] });
  expect(life.logs.join("")).toMatch(/no longer makes calls that are recorded.*step \\?"b/);
});

test("a step that was moved is replayed", async () => {
  const store = await emptyStore();
  await liveUntil(store, agentOf(steps("a", "b", "c", "stop")), (entries) => calls(entries) === 3);
  const done: string[] = [];
  const moved = agentOf(async ({ job }) => {
    for (const name of ["c", "a", "b"]) await job.step(name, () => void done.push(name));
    return "moved";
  });

  expect((await liveOn(store, moved)).job).toMatchObject({ status: "completed", result: "moved" });
  expect(done).toEqual([]);
});

test.each([
  ["renamed", steps("a", "other", "c")],
  ["put in", steps("a", "other", "b", "c")],
  [
    "renamed, beside others",
    ({ job }: JobStartContext) =>
      Promise.all([steps("a", "other", "c")({ job } as JobStartContext), job.step("d", () => "d")]),
  ],
] as const)(
  "a step that was %s makes the job held before it runs, and the error names both",
  async (_how, changed) => {
    const store = await emptyStore();
    await liveUntil(store, agentOf(steps("a", "b", "c", "stop")), (entries) => calls(entries) === 3);

    const { job, entries } = await liveOn(store, agentOf(changed as Handler));

    expect(job).toMatchObject({ status: "awaiting", stop_reason: "code_changed" });
    expect(job.error).toMatch(
      /The record continues with step "b", but the handler now makes step "(other|d)"/,
    );
    expect(calls(entries)).toBe(3);
  },
);

test("a handler that ends before its record does gets an error", async () => {
  const store = await emptyStore();
  await liveUntil(store, agentOf(steps("a", "b", "c", "stop")), (entries) => calls(entries) === 3);

  const { job } = await liveOn(store, agentOf(steps("a", "b")));

  expect(job).toMatchObject({ status: "awaiting", stop_reason: "code_changed" });
  expect(job.error).toContain('The handler ended, but the record continues with step "c"');
});

test("a job that version 0.1.0 started continues, with its keys", async () => {
  const store = await emptyStore();
  const keys: string[] = [];
  const handler: Handler = async ({ job }) => {
    const first = await Promise.all(["x", "y"].map((name) => job.step("work", () => `not ${name}`)));
    await job.sleep("1h");
    const item = await job.openCase({ id: "a", name: "a" });
    const seen = await item.step("look", () => "not seen");
    const last = await job.step("work", ({ idempotencyKey }) => {
      keys.push(idempotencyKey);
      return "z";
    });
    return [...first, seen, last];
  };
  const agent = agentOf(handler);
  const never = agentOf(async ({ job }) => {
    await job.openCase({ id: "a", name: "a" });
    await new Promise(() => {});
  });
  await liveUntil(store, never, (entries) => calls(entries) === 1);
  // As that version wrote it: positions only, and a sleep when it begins.
  const at = (second: number) => new Date(Date.now() - 7200_000 + second * 1000).toISOString();
  const step = (position: number, result: string, second: number) =>
    ({ type: "call", call: "step", position, name: "work", result, at: at(second) }) as const;
  await store.transaction(async (tx) => {
    await tx.clear("Run", JOB);
    const until = at(3605);
    for (const entry of [
      { type: "status", from: null, to: "in_progress", at: at(0) } as const,
      step(1, "y", 3),
      step(0, "x", 4),
      { type: "call", call: "sleep", position: 2, name: "sleep", result: until, at: at(5) } as const,
      {
        type: "call",
        call: "open_case",
        case_id: "a",
        position: 0,
        name: "a",
        result: "a",
        at: at(3606),
      } as const,
      {
        type: "call",
        call: "step",
        case_id: "a",
        position: 0,
        name: "look",
        result: "seen",
        at: at(3607),
      } as const,
    ])
      await tx.append("Run", JOB, entry);
  });

  const { job } = await liveOn(store, agent);

  expect(job).toMatchObject({ status: "completed", result: ["x", "y", "seen", "z"] });
  expect(keys).toEqual([`${JOB}//3`]);
});

test("an idempotency key depends on the call, not on its time, and is valid in a header", async () => {
  const keys: string[] = [];
  const agent = agentOf(async ({ job }) => {
    const note = ({ idempotencyKey }: { idempotencyKey: string }) => void keys.push(idempotencyKey);
    const item = await job.openCase({ id: "a", name: "a" });
    await Promise.all(
      ["pay", "pay", "Zahlung für 3 €", "long ".repeat(50)].map((name) => job.step(name, note)),
    );
    await item.step("pay", note);
    await item.step("pay", note, { key: "pay/0" });
  });
  const life = new Life(await emptyStore(), agent);
  await life.start();
  await life.ended();

  expect(new Set(keys).size).toBe(6);
  expect(keys).toEqual(
    expect.arrayContaining([`${JOB}//pay/0`, `${JOB}//pay/1`, `${JOB}/a/pay/0`, `${JOB}/a/=pay%2F0/0`]),
  );
  for (const key of keys) expect(key).toMatch(/^[\x21-\x7e]{1,200}$/);
});

test("the loser of a race that was running when the process ended does not block the replay", async () => {
  let life = 1;
  const store = await emptyStore();
  const agent = agentOf(async ({ job }) => {
    const given = await Promise.race([job.step("slow", () => new Promise(() => {})), job.sleep("1ms")]);
    await job.step("after", () => (life === 1 ? new Promise(() => {}) : "after"));
    return given ?? "too late";
  });
  await liveUntil(store, agent, (entries) => calls(entries) === 1);
  life = 2;

  expect((await liveOn(store, agent)).job).toMatchObject({ status: "completed", result: "too late" });
});

/** A job of `handler`, with a log as version 0.1.0 wrote it: positions only. */
async function begunBefore(lines: readonly RunEntry[]) {
  const store = await emptyStore();
  const opened = lines.flatMap((line) =>
    line.type === "call" && line.call === "open_case" ? line.name : [],
  );
  const never = agentOf(async ({ job }) => {
    await Promise.all(opened.map((id) => job.openCase({ id, name: id })));
    await new Promise(() => {});
  });
  await liveUntil(store, never, (entries) => entries.length > 1 && calls(entries) === opened.length);
  await store.transaction(async (tx) => {
    await tx.clear("Run", JOB);
    await tx.append("Run", JOB, { type: "status", from: null, to: "in_progress", at: lines[0]!.at });
    for (const line of lines) await tx.append("Run", JOB, line);
  });
  return store;
}

const AT = "2026-01-31T09:30:00.000Z";
const oldStep = (position: number, name: string, result: unknown) =>
  ({ type: "call", call: "step", position, name, result, at: AT }) as const;

test("cases that version 0.1.0 opened concurrently are found again", async () => {
  const open = (id: string) =>
    ({ type: "call", call: "open_case", case_id: id, position: 0, name: id, result: id, at: AT }) as const;
  const store = await begunBefore([open("a"), open("b"), { ...oldStep(0, "work", "done a"), case_id: "a" }]);

  const { job } = await liveOn(
    store,
    agentOf(({ job }) =>
      Promise.all(
        ["a", "b"].map(async (id) => {
          const item = await job.openCase({ id, name: id });
          return item.step("work", () => `again ${id}`);
        }),
      ),
    ),
  );

  expect(job).toMatchObject({ status: "completed", result: ["done a", "again b"] });
});

test.each([
  ["the first", [1, 2], ["0: //0"]],
  ["one in the middle", [0, 2], ["1: //1"]],
  ["all but the last", [2], ["0: //0", "1: //1"]],
  ["the last", [0, 1], ["2: //2"]],
  ["none", [0, 1, 2], []],
])(
  "of steps with one name that version 0.1.0 started, %s is run again, with its key, across two restarts",
  async (_which, recorded, again) => {
    const store = await begunBefore(recorded.map((n) => oldStep(n, "work", `done ${n}`)));
    const did: string[] = [];
    let isLast = false;
    const agent = agentOf(async ({ job }) => {
      const all = await Promise.all(
        [0, 1, 2].map((n) =>
          job.step("work", ({ idempotencyKey }) => {
            did.push(`${n}: ${idempotencyKey.slice(JOB.length)}`);
            return `done ${n}`;
          }),
        ),
      );
      const next = await job.step("work", () => "next");
      await job.step("pause", () => (isLast ? "over" : new Promise(() => {})));
      return [...all, next];
    });
    await liveUntil(store, agent, (entries) => calls(entries) === 4);
    isLast = true;

    const { job } = await liveOn(store, agent);

    expect(job).toMatchObject({ status: "completed", result: ["done 0", "done 1", "done 2", "next"] });
    expect(did).toEqual(again);
  },
);

test("a job that ends while a start plans how to resume it stays as it ended", async () => {
  const store = await emptyStore();
  const agent = agentOf(async ({ job }) => {
    await job.step("work", () => goOn.opened);
    return "done";
  });
  const goOn = gate();
  const one = new Life(store, agent);
  await one.start();
  // What a start has read of the job is its state of before.
  const before = (await store.table("Job").get(JOB))!;
  const { total } = await store.table("Job").list();
  const other = new Life(store, agent);
  other.parts.jobs.list = async () => {
    goOn.open();
    await one.ended();
    return { items: [before], total };
  };
  await other.resume();
  await delay(20);

  const entries = await one.entries();
  expect(await one.jobs.get(JOB)).toMatchObject({ status: "completed", run_count: 1 });
  expect(entries.at(-1)).toMatchObject({ type: "status", to: "completed" });
  expect(entries.filter(({ type }) => type === "mark")).toEqual([]);
});
