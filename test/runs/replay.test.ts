import { setTimeout as delay } from "node:timers/promises";
import type { JobStartContext } from "agent-control-service";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { everyDeath } from "./_lives.ts";

type Handler = (context: JobStartContext) => Promise<unknown>;

const ITEMS = [0, 1, 2, 3];
/** The first takes longest. */
const slowly = <T>(n: number, value: T) => delay(2 + 3 * (ITEMS.length - n), value);

const SHAPES: Record<string, Handler> = {
  "chains of steps of the same names": ({ job }) =>
    Promise.all(
      ITEMS.map(async (n) => {
        const text = await job.step("fetch", () => slowly(n, `doc${n}`));
        return job.step("process", () => slowly(n, `summary of ${text} for ${n}`));
      }),
    ),
  "chains of steps of the same names, in one case": async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    return Promise.all(
      ITEMS.map(async (n) => {
        const text = await item.step("fetch", () => slowly(n, `doc${n}`));
        await item.update({ name: "fetched", payload: { n } });
        return item.step("process", () => slowly(n, `summary of ${text} for ${n}`));
      }),
    );
  },
  "chains of steps of names of their own": ({ job }) =>
    Promise.all(
      ITEMS.map(async (n) => {
        const text = await job.step(`fetch ${n}`, () => slowly(n, `doc${n}`));
        return job.step(`process ${n}`, () => `summary of ${text} for ${n}`);
      }),
    ),
  "a time limit for a step, which it keeps": async ({ job }) => {
    const given = await Promise.race([job.step("quick", () => "quick"), job.sleep("1h")]);
    return [given, await job.step("after", () => `after ${given}`)];
  },
  "a time limit for a step, which it does not keep": async ({ job }) => {
    const slow = job.step("slow", () => delay(150, "slow"));
    const given = await Promise.race([slow, job.sleep("15ms")]);
    return [
      given ?? "too late",
      await job.step("after", () => "after"),
      await job.step("more", () => "more"),
    ];
  },
  "the first of some that succeeds": async ({ job }) => {
    const given = await Promise.any(
      ITEMS.map((n) => job.step("try", () => slowly(n, n).then((n) => (n < 3 ? Promise.reject(n) : n)))),
    );
    return [given, await job.step("after", () => `after ${given}`)];
  },
  "all of some, whether they succeed or not": async ({ job }) => {
    const all = await Promise.allSettled(
      ITEMS.map((n) =>
        job.step("try", () => slowly(n, n).then((n) => (n % 2 ? Promise.reject(new Error(`no ${n}`)) : n)), {
          retries: 1,
          backoff: { initial: "1ms" },
        }),
      ),
    );
    return all.map((one) => (one.status === "fulfilled" ? one.value : String(one.reason)));
  },
  "two workers that take what is next": async ({ job }) => {
    const left = [...ITEMS];
    const done: string[] = [];
    const work = async () => {
      for (let n = left.shift(); n !== undefined; n = left.shift()) {
        const one = n;
        done.push(`${one} is ${await job.step("work", () => slowly(one, one))}`);
      }
    };
    await Promise.all([work(), work()]);
    return done.sort();
  },
  "cases side by side": async ({ job }) =>
    Promise.all(
      ITEMS.map(async (n) => {
        const item = await job.openCase({ id: `case-${n}`, name: "case" });
        const first = await item.step("first", () => slowly(n, n));
        await job.sleep("1ms");
        const second = await item.step("second", () => slowly(n, first + 1));
        await item.close({ n, second });
        return [n, first, second];
      }),
    ),
  "one after the other, with waits between that nobody records": async ({ job }) => {
    const given: unknown[] = [];
    for (const n of ITEMS) {
      await delay(1);
      given.push(await job.step("step", () => n));
    }
    return given;
  },
};

test.each(Object.entries(SHAPES))(
  "a job that is resumed after the end of the process at any line of its log ends as if undisturbed: %s",
  async (_name, handler) => {
    const { undisturbed, resumed } = await everyDeath(() => agentOf(handler));

    expect(undisturbed).toMatchObject({ status: "completed" });
    expect(resumed.length).toBeGreaterThan(1);
    for (const job of resumed)
      expect(job).toMatchObject({ status: "completed", error: null, result: undisturbed.result });
  },
);
