import { setTimeout as delay } from "node:timers/promises";
import type { JobStartContext } from "agent-control-service";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { emptyStore, everyDeath, Life } from "./_lives.ts";

type Handler = (context: JobStartContext) => Promise<unknown>;

const run = async (handler: Handler, strictSteps: boolean) => {
  const life = new Life(await emptyStore(), agentOf(handler), { strictSteps });
  await life.start();
  return (await life.ended())!;
};
const MODES = [
  ["with strictSteps", true],
  ["without", false],
] as const;

/** Shapes in which chance decides which of two calls of one name comes first. */
const UNSAFE: Record<string, Handler> = {
  "chains beside each other, which overlap": ({ job }) =>
    Promise.all([1, 2].map((n) => delay(n).then(() => job.step("work", () => delay(20, n))))),
  "chains beside each other, one long after the other": ({ job }) =>
    Promise.all([1, 2, 3].map((n) => delay(15 * n).then(() => job.step("work", () => n)))),
  "chains of several waits, one after the other": ({ job }) =>
    Promise.all(
      [1, 2].map(async (n) => {
        await delay(10 * n);
        await delay(10 * n);
        return job.step("work", () => n);
      }),
    ),
  "a chain that waits, before one that does not": ({ job }) =>
    Promise.all([
      delay(1).then(() => job.step("work", () => delay(40, 1))),
      job.step("first", () => delay(20)).then(() => job.step("work", () => 2)),
    ]),
  "events that come when they come": ({ job }) =>
    new Promise((resolve, reject) => {
      for (const n of [1, 2]) setTimeout(() => job.step("work", () => n).catch(reject), 15 * n);
      setTimeout(resolve, 200);
    }),
  "some started together after a wait, beside others after another": ({ job }) =>
    Promise.all(
      [3, 12].map((ms) =>
        delay(ms).then(() => Promise.all([1, 2].map((n) => job.step("work", () => delay(30, n))))),
      ),
    ),
  "questions of one wording": async ({ job }) => {
    const items = await Promise.all(["a", "b"].map((id) => job.openCase({ id, name: id })));
    await Promise.all(items.map((item, n) => delay(10 * (n + 1)).then(() => item.update({ name: "x" }))));
    return Promise.all([1, 2].map((n) => delay(10 * n).then(() => items[0]!.update({ name: "x" }))));
  },
  "sleeps beside each other": ({ job }) =>
    Promise.all([1, 2].map((n) => delay(5 * n).then(() => job.sleep("50ms")))),
};

test.each(
  Object.entries(UNSAFE).flatMap(([name, handler]) =>
    MODES.map(([mode, strict]) => [name, mode, handler, strict] as const),
  ),
)(
  "calls that could not be replayed are refused the first time they run: %s, %s",
  async (_name, _mode, handler, strict) => {
    const job = await run(handler, strict);

    expect(job).toMatchObject({ status: "failed", stop_reason: "nondeterministic" });
    expect(job.error).toMatch(/(work|x|sleep)" of .*its own name or "key", use a case for each/);
  },
);

test("only strictSteps refuses a late first call of a run if one of its name has ended by then", async () => {
  const handler: Handler = ({ job }) => {
    let isEnded = false;
    const late = async () => {
      while (!isEnded) await delay(5);
      return job.step("work", () => 1);
    };
    const soon = async () => {
      await job.step("first", () => 0);
      const result = await job.step("work", () => 2);
      isEnded = true;
      return result;
    };
    return Promise.all([late(), soon()]);
  };

  expect(await run(handler, true)).toMatchObject({ status: "failed", stop_reason: "nondeterministic" });
  expect(await run(handler, false)).toMatchObject({ status: "completed", result: [1, 2] });
});

const item = async (job: JobStartContext["job"], n: number) => {
  await delay(2);
  const value = await job.step("work", () => delay(1, n));
  await delay(2);
  return value;
};

/** Shapes with unrecorded waits, in which the order of calls is still certain. */
const SAFE: Record<string, Handler> = {
  "one after the other": async ({ job }) => {
    const all: number[] = [];
    for (const n of [1, 2, 3]) {
      await delay(2);
      all.push(await job.step("work", () => n));
    }
    return all;
  },
  "one after the other, in functions that wait before and after": async ({ job }) => {
    const all: number[] = [];
    for (const n of [1, 2, 3]) all.push(await item(job, n));
    return all;
  },
  "one after the other, after some beside each other": async ({ job }) => {
    const all = await Promise.all([1, 2, 3].map((n) => job.step("work", () => delay(5 * n, n))));
    for (const n of [4, 5]) all.push(await item(job, n));
    return all;
  },
  "one after the other, by way of a queue": async ({ job }) => {
    let last: Promise<unknown> = Promise.resolve();
    const all = [1, 2, 3].map((n) => {
      const own = last.then(() => item(job, n));
      last = own;
      return own;
    });
    return Promise.all(all);
  },
  "one after the other, from a generator": async ({ job }) => {
    async function* numbers() {
      for (const n of [1, 2, 3]) yield delay(3, n);
    }
    const all: number[] = [];
    for await (const n of numbers()) all.push(await job.step("work", () => n));
    return all;
  },
  "one after the other, while something else is under way": async ({ job }) => {
    const other = job.step("other", () => delay(150, "other"));
    const all: unknown[] = [];
    await job.step("first", () => 0);
    for (const n of [1, 2, 3]) all.push(await item(job, n));
    return [...all, await other];
  },
  "beside each other, all started together after a wait": async ({ job }) => {
    await delay(5);
    return Promise.all([1, 2, 3].map((n) => job.step("work", () => delay(20 - 5 * n, n))));
  },
  "chains beside each other, all started together after a wait": async ({ job }) => {
    await delay(5);
    const chain = async (n: number) => {
      const got = await job.step("fetch", () => delay(20 - 5 * n, n));
      return job.step("process", () => got * 10);
    };
    return Promise.all([1, 2, 3].map(chain));
  },
  "a few at a time after a wait": async ({ job }) => {
    await delay(5);
    const left = [1, 2, 3, 4, 5];
    const all: number[] = [];
    const work = async () => {
      for (let n = left.shift(); n !== undefined; n = left.shift()) {
        const own = n;
        all.push(await job.step("work", () => delay(own % 2 ? 15 : 3, own)));
      }
    };
    await Promise.all([work(), work()]);
    // Which comes first is left to how long they take; none may be given the result of another.
    return all.sort();
  },
  "beside each other, after reading the case": async ({ job }) => {
    const one = await job.openCase({ id: "one", name: "case" });
    await one.read();
    return Promise.all([1, 2, 3].map((n) => one.step("work", () => delay(20 - 5 * n, n))));
  },
  "beside each other, with names of their own": ({ job }) =>
    Promise.all([1, 2, 3].map((n) => delay(5 * n).then(() => job.step(`work ${n}`, () => n)))),
  "beside each other, after a step and a wait that ended before it": ({ job }) =>
    Promise.all(
      [1, 2, 3].map(async (n) => {
        const [value] = await Promise.all([job.step(`read ${n}`, () => delay(25 - 5 * n, n)), delay(8)]);
        return job.step(`use ${n}`, () => delay(5 * n, value * 2));
      }),
    ),
  "beside each other, with keys of their own": ({ job }) =>
    Promise.all(
      [1, 2, 3].map((n) =>
        delay(20 - 5 * n).then(() => job.step("work", () => delay(20, n), { key: String(n) })),
      ),
    ),
  "beside each other, in a case each": ({ job }) =>
    Promise.all(
      [1, 2, 3].map(async (n) => {
        const one = await job.openCase({ id: String(n), name: "case" });
        await delay(5 * n);
        const value = await one.step("work", () => n);
        await delay(2);
        return [value, await one.step("work", () => n + 1)];
      }),
    ),
};

test.each(
  Object.entries(SAFE).flatMap(([name, handler]) =>
    MODES.map(([mode, strict]) => [name, mode, handler, strict] as const),
  ),
)("unrecorded waits do not block others: %s, %s", async (_name, _mode, handler, strictSteps) => {
  const { undisturbed, resumed } = await everyDeath(() => agentOf(handler), { strictSteps });

  expect(undisturbed).toMatchObject({ status: "completed", error: null });
  expect(resumed.length).toBeGreaterThan(2);
  for (const job of resumed) expect(job).toMatchObject({ status: "completed", result: undisturbed.result });
});

test("a call that was made before the end of another is made before it in a replay", async () => {
  const { undisturbed, resumed } = await everyDeath(() =>
    agentOf(async ({ job }) => {
      const slow = job.step("slow", () => delay(60, "slow"));
      // A limit of time that nobody records.
      const given = await Promise.race([slow, delay(20, "too late")]);
      const next = await job.step(`after ${given}`, () => delay(60, given));
      return [given, next, await slow];
    }),
  );

  expect(undisturbed.result).toEqual(["too late", "too late", "slow"]);
  // Once the call is recorded; before that, chance may decide otherwise.
  const late = resumed.filter((job) => job.result !== null && (job.result as string[])[0] === "too late");
  expect(resumed.every(({ status }) => status === "completed")).toBe(true);
  expect(late.length).toBeGreaterThanOrEqual(2);
});
