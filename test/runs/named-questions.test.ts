import { setTimeout as delay } from "node:timers/promises";
import type { CaseHandle } from "agent-control-service";
import * as v from "valibot";
import { expect, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { Deploys } from "./_deploys.ts";

const FORM = v.object({ approved: v.boolean() });
const fetched: string[] = [];

/** Fetches, asks, tells the answer. */
const asker = (ask: (item: CaseHandle) => Promise<unknown>) =>
  agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.step("fetch", () => void fetched.push("fetch"));
    const answer = await ask(item);
    await item.step("file", () => "filed");
    await item.close();
    return answer;
  });

const named = (question: string, more: object = {}) =>
  asker((item) => item.ask("approve", { question, fields: FORM, ...more }));
const unnamed = (question: string) => asker((item) => item.ask({ question, fields: FORM }));

test("an open question gets the words, form and deadline of new code, and keeps its id and age", async () => {
  const deploys = await Deploys.start(named("Shall we recieve it?", { deadline: "2h" }));
  const first = await deploys.question("a");

  await deploys.deploy(
    asker((item) =>
      item.ask("approve", {
        question: "Shall we receive it?",
        fields: v.object({ approved: v.boolean(), reason: v.optional(v.string(), "none") }),
        deadline: "3h",
        onTimeout: "cancel",
      }),
    ),
  );
  const second = await deploys.question("a", (text) => text.includes("receive"));
  const item = await deploys.life.cases.get("a");
  await deploys.answer("a", { approved: true, reason: "good" });
  const job = await deploys.ended();

  expect(first).toMatchObject({ name: "approve", question: "Shall we recieve it?" });
  expect(second).toMatchObject({
    ...{ id: first.id, name: "approve", asked_at: first.asked_at, on_timeout: "cancel" },
    fields: [{ name: "approved" }, { name: "reason" }],
  });
  expect(Date.parse(second.deadline!) - Date.parse(first.deadline!)).toBe(3_600_000);
  // An update tells the control system.
  expect(item.updates.at(-1)?.payload).toMatchObject({ question: { question: "Shall we receive it?" } });
  expect(job).toMatchObject({ status: "completed", result: { approved: true, reason: "good" } });
});

test("an unchanged question is not reported again after a restart", async () => {
  const agent = named("Pay it?", { deadline: "2h" });
  const deploys = await Deploys.start(agent);
  await deploys.question("a");
  const before = await deploys.life.cases.get("a");

  await deploys.deploy(agent);
  await deploys.until((job) => job.run_count >= 2);
  await deploys.answer("a", { approved: true });
  await deploys.ended();

  const { updates } = await deploys.life.cases.get("a");
  expect(updates.slice(0, before.updates.length)).toEqual(before.updates);
  expect(updates[before.updates.length]).toMatchObject({ name: "answer" });
});

test.each([
  [
    "while the process runs",
    async (deploys: Deploys) => void (await deploys.answer("a", { approved: false })),
  ],
  [
    "before the code was another",
    async (deploys: Deploys) => {
      await deploys.deploy(named("Pay it?"));
      await deploys.answer("a", { approved: false });
    },
  ],
])("an answer given %s counts for a reworded question", async (_when, answer) => {
  fetched.length = 0;
  const deploys = await Deploys.start(
    asker(async (item) => {
      const given = await item.ask("approve", { question: "Pay it?", fields: FORM });
      await item.ask("wait", { question: "And now?", fields: [] });
      return given;
    }),
  );
  await deploys.question("a");
  await answer(deploys);
  await deploys.deploy(named("Shall it be paid?"));
  // The second question is gone with the code.
  const job = await deploys.ended();

  expect(job).toMatchObject({ status: "completed", result: { approved: false } });
  expect(fetched).toEqual(["fetch"]);
});

const AMOUNT = v.object({ amount: v.number() });
const SLOW_AMOUNT = v.objectAsync({
  amount: v.pipeAsync(
    v.number(),
    v.checkAsync(async (n) => delay(5, n > 0), "must be more than nothing"),
  ),
});

test.each([
  ["immediately", AMOUNT],
  ["after a while", SLOW_AMOUNT],
])(
  "a question is asked again if its answer does not fit the new form, which reports that %s",
  async (_when, form) => {
    let isFirst = true;
    const told: unknown[] = [];
    const ask = (fields: typeof FORM | typeof AMOUNT | typeof SLOW_AMOUNT) =>
      agentOf(
        async ({ job }) => {
          const item = await job.openCase({ id: "a", name: "a" });
          const answer = await item.ask("approve", { question: "How much?", fields: fields as typeof FORM });
          await item.step("pay", () => (isFirst ? new Promise(() => {}) : "paid"));
          return answer;
        },
        { methods: { human_answer: { run: ({ answer }) => void told.push(answer) } } },
      );
    const deploys = await Deploys.start(ask(FORM));
    const first = await deploys.question("a");
    await deploys.answer("a", { approved: true });
    await deploys.until(() => told.length === 1);
    isFirst = false;

    await deploys.deploy(ask(form));
    const second = await deploys.question("a");
    await deploys.deploy(ask(form));
    const third = await deploys.question("a");
    await deploys.answer("a", { amount: 5 });
    const job = await deploys.ended();
    await deploys.life.runner.override(job.id, "in_progress", "someone");

    expect(second.id).not.toBe(first.id);
    expect(second.note).toMatch(/no longer matches: .*amount is required/);
    expect(third).toEqual(second);
    expect(job).toMatchObject({ status: "completed", result: { amount: 5 } });
    expect(told).toEqual([{ approved: true }, { amount: 5 }]);
    // Replayed once more, from the record alone.
    expect(await deploys.ended()).toMatchObject({ status: "completed", result: { amount: 5 } });
  },
);

test("a question without a name is still found by its text, and an unanswered one also in other words", async () => {
  const deploys = await Deploys.start(unnamed("Shall we recieve it?"));
  const first = await deploys.question("a");

  await deploys.deploy(unnamed("Shall we receive it?"));
  const second = await deploys.question("a", (text) => text.includes("receive"));
  await deploys.deploy(unnamed("Shall we receive it?"));
  await deploys.answer("a", { approved: true });

  expect(second.id).toBe(first.id);
  expect(await deploys.ended()).toMatchObject({ status: "completed", result: { approved: true } });
});

test("a question may get a name, and other words after that", async () => {
  const deploys = await Deploys.start(
    asker(async (item) => {
      const given = await item.ask({ question: "Pay it?", fields: FORM });
      await item.ask({ question: "And now?", fields: FORM });
      return given;
    }),
  );
  await deploys.question("a");
  await deploys.answer("a", { approved: true });
  const renamed = (question: string) =>
    asker(async (item) => {
      const given = await item.ask("approve", { question, fields: FORM });
      await item.ask("now", { question: "And now?", fields: FORM });
      return given;
    });

  await deploys.deploy(renamed("Pay it?"));
  await deploys.until(({ run_count }) => run_count >= 2);
  await deploys.question("a", (text) => text === "And now?");
  await deploys.deploy(renamed("Shall it be paid?"));
  await deploys.until(({ run_count }) => run_count >= 3);
  await deploys.answer("a", { approved: false });

  expect(await deploys.ended()).toMatchObject({ status: "completed", result: { approved: true } });
});

test("a step that new code puts before an open question runs, and the question stays", async () => {
  const deploys = await Deploys.start(named("Pay it?"));
  const first = await deploys.question("a");
  const looked: string[] = [];

  await deploys.deploy(
    asker(async (item) => {
      await item.step("look it up", () => void looked.push("up"));
      return item.ask("approve", { question: "Pay it?", fields: FORM });
    }),
  );
  await deploys.until(() => looked.length > 0);
  await deploys.answer("a", { approved: true });

  expect(await deploys.ended()).toMatchObject({ status: "completed", result: { approved: true } });
  expect(looked).toEqual(["up"]);
  expect(first.name).toBe("approve");
});
