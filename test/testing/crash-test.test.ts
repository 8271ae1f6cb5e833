// @long
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type AgentDefinition, defineAgent, type JobStartContext } from "agent-control-service";
import { crashTest } from "agent-control-service/testing";
import { afterAll, describe, expect, it } from "vitest";

type Handler = (context: JobStartContext) => unknown;

function agentOf(run: Handler): AgentDefinition {
  return defineAgent({
    name: "Worker",
    version: "1.0.0",
    methods: { job_start: { run: async (context) => (await run(context)) as Record<string, unknown> } },
  });
}

const folder = mkdtempSync(join(tmpdir(), "crash-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const items = ["a", "b", "c"];
let shared = 0;

describe("crashTest", () => {
  it.each<[string, Handler, RegExp]>([
    [
      "the time of day",
      async ({ job }) => {
        const day = new Date().toISOString();
        await job.step("one", () => 1);
        return { day };
      },
      /result is .* instead of .*new Date\(\) at .*crash-test\.test/,
    ],
    [
      "chance",
      async ({ job }) => {
        const id = randomUUID();
        await job.step("one", () => 1);
        return { id };
      },
      /result is .* instead of .*randomUUID at/,
    ],
    [
      "chance that decides what is done",
      async ({ job }) => {
        for (let n = 0; n < 1 + Math.random() * 40; n++) await job.step(`step ${n}`, () => n);
        return {};
      },
      /Math\.random at/,
    ],
    [
      "an order that nobody records",
      async ({ job }) => {
        await Promise.all(
          items.map(async (item, n) => {
            await delay((3 - n) * 3);
            await job.step("work", () => item);
          }),
        );
        return {};
      },
      /rejected without a crash: .*work/,
    ],
    [
      "an effect outside of a step",
      async ({ job }) => {
        await job.step("one", () => 1);
        await writeFile(join(folder, "sent"), "mail");
        await job.step("two", () => 2);
        return {};
      },
      /outside of a step.*writeFile at .*crash-test\.test/,
    ],
    [
      "a step that nobody waits for",
      async ({ job }) => {
        await job.step("one", () => 1);
        void job.step("two", () => delay(20));
        return {};
      },
      /does not wait for.*two/,
    ],
    [
      "a variable that a step sets",
      async ({ job }) => {
        let user = { name: "nobody" };
        await job.step("load", () => {
          user = { name: "Ada" };
        });
        await job.step("greet", () => user.name);
        return { user };
      },
      /after a crash .* result is \{ user: \{ name: 'nobody' \} \} instead of \{ user: \{ name: 'Ada' \} \}/,
    ],
    [
      "a variable that all runs share",
      async ({ job }) => {
        shared += await job.step("one", () => 1);
        return { shared };
      },
      /a second time in the same process: result is/,
    ],
    [
      "a step inside a step",
      async ({ job }) => {
        await job.step("outer", async () => {
          await delay(1);
          return job.step("inner", () => 1);
        });
        return {};
      },
      /rejected without a crash: .*inner/,
    ],
    [
      "an error that is caught although the run has ended with it",
      async ({ job }) => {
        const seen: string[] = [];
        for (const item of items) {
          const tried = await job
            .step("try", ({ attempt }) => {
              seen.push(item);
              return attempt;
            })
            .catch(() => 0);
          if (seen.length < tried) return { gaveUp: item };
        }
        return { seen };
      },
      /after a crash/,
    ],
  ])("finds %s", async (_, run, message) => {
    const failed: unknown = await crashTest(agentOf(run)).catch((error: unknown) => error);

    expect(failed).toMatchObject({
      name: "CrashTestError",
      faults: expect.arrayContaining([expect.any(String)]),
    });
    expect((failed as Error).message).toMatch(message);
  });

  it.each<[string, Handler]>([
    [
      "steps one after the other",
      async ({ job }) => ({ sum: (await job.step("a", () => 1)) + (await job.step("b", () => 2)) }),
    ],
    [
      "the time of day and chance in steps",
      async ({ job }) => {
        const at = await job.step("now", () => Date.now());
        const id = await job.step("id", () => randomUUID());
        return { at, id };
      },
    ],
    [
      "parallel chains of one name",
      async ({ job }) => ({
        all: await Promise.all(
          items.map(async (item) => {
            const page = await job.step("fetch", () => delay(2, `page of ${item}`));
            return job.step("read", () => page.length);
          }),
        ),
      }),
    ],
    [
      "a race of a step and a time limit",
      async ({ job }) => ({
        first: await Promise.race([
          job.step("slow", () => delay(5, "done")),
          job.sleep("1h").then(() => "late"),
        ]),
      }),
    ],
    [
      "tries that fail",
      async ({ job }) => ({
        tried: await job.step(
          "flaky",
          ({ attempt }) => {
            if (attempt < 3) throw new Error("not yet");
            return attempt > 2;
          },
          { retries: 5, backoff: { initial: "5m" } },
        ),
      }),
    ],
    [
      "a failure that is caught",
      async ({ job }) => {
        const found = await job.step("find", () => Promise.reject(new Error("nothing"))).catch(() => "none");
        return { found, next: await job.step("continue", () => found) };
      },
    ],
    [
      "long sleeps",
      async ({ job }) => {
        await job.sleep("30d");
        await job.step("remind", () => "sent");
        await job.sleep("1d");
        return {};
      },
    ],
    [
      "cases",
      async ({ job }) => {
        for (const item of items) {
          const one = await job.openCase({ id: item, name: `Item ${item}` });
          await one.update({ name: "Seen" });
          const found = await one.step("look", () => ({ item }));
          await one.close({ found: found.item });
        }
        return {};
      },
    ],
    [
      "a log line with the time",
      async ({ job, log }) => {
        log.info(`started at ${new Date().toISOString()}`);
        return { one: await job.step("one", () => 1) };
      },
    ],
    [
      "workers that take the next item",
      async ({ job }) => {
        const left = [...items, "d", "e"];
        const done: string[] = [];
        const worker = async () => {
          for (let item = left.shift(); item !== undefined; item = left.shift())
            done.push(await job.step(`work on ${item}`, () => delay(2, item as string)));
        };
        await Promise.all([worker(), worker()]);
        return { done };
      },
    ],
  ])("accepts %s", async (_, run) => {
    const report = await crashTest(agentOf(run));

    expect(report.interruptions).toBeGreaterThan(0);
  });

  it("interrupts a job of sixty calls before and after each line, answering its questions", async () => {
    const agent = agentOf(async ({ job }) => {
      const done = await Promise.all(
        [1, 2, 3, 4, 5, 6].map(async (n) => {
          const item = await job.openCase({ id: `item-${n}`, name: `Item ${n}` });
          let sum = 0;
          for (let part = 0; part < 7; part++) sum += await item.step(`part ${part}`, () => part * n);
          const { ok } = await item.ask({
            question: "Is that right?",
            fields: [{ name: "ok", field_type: "BooleanField" }],
          });
          await item.close({ sum });
          return ok ? sum : 0;
        }),
      );
      return { done };
    });

    const report = await crashTest(agent, { answers: () => ({ ok: true }) });

    expect(report.lines).toBeGreaterThanOrEqual(60);
    expect(report.interruptions).toBeGreaterThan(120);
  });

  it("names the question that nobody answers", async () => {
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "one", name: "One" });
      await item.ask({ question: "Which?", fields: [{ name: "which", field_type: "CharField" }] });
      return {};
    });

    await expect(crashTest(agent)).rejects.toThrow(/Nobody answers "Which\?" of case "one"/);
  });
});
