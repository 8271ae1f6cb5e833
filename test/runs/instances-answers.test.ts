import type { AgentDefinition } from "agent-control-service";
import * as v from "valibot";
import { expect, onTestFinished, test } from "vitest";
import { isTerminal } from "../../src/core/models/entity-status.ts";
import type { Store } from "../../src/core/store/store.ts";
import { agentOf, gate } from "./_agent.ts";
import { bury, emptyStore, JOB, Life } from "./_lives.ts";

/** Nobody is taken for dead. */
const PATIENT = { beat: 50, dead: 30_000, giveUp: 30_000, look: 20 };

async function join(store: Store, agent: AgentDefinition, options = {}): Promise<Life> {
  const life = new Life(store, agent, { shared: PATIENT, ...options });
  await life.resume();
  onTestFinished(() => void life.runner.close(0));
  return life;
}

const isEven = (n: number) => n % 2 === 0;
const soon = () => new Promise((resolve) => setTimeout(resolve, 5));

test.each([
  ["immediately", false, v.check(isEven, "must be even")],
  ["after a while", false, v.checkAsync(async (n: number) => soon().then(() => isEven(n)), "must be even")],
  ["where the agent is notified of answers", true, v.check(isEven, "must be even")],
])(
  "an answer at another instance that the agent's own schema refuses %s is asked for again",
  async (_, tells, check) => {
    const store = await emptyStore();
    const told: unknown[] = [];
    const agent = () =>
      agentOf(
        async ({ job }) => {
          const item = await job.openCase({ id: "c", name: "c" });
          const fields = v.objectAsync({ n: v.pipeAsync(v.number(), check as never) });
          const { n } = await item.ask("number", { question: "Which number?", fields: fields as never });
          return n;
        },
        tells ? { methods: { human_answer: { run: ({ answer }) => void told.push(answer) } } } : {},
      );
    const [a, b] = [await join(store, agent()), await join(store, agent())];
    await a.start();
    const asked = async () => (await b.cases.list({ where: { job_id: JOB } })).items[0];
    await expect.poll(async () => (await asked())?.question).toBeTruthy();
    const { id, question } = (await asked())!;

    await b.runner.answer(JOB, id, { answer: { n: 3 }, message: null });
    await expect.poll(async () => (await asked())?.question?.id ?? question!.id).not.toBe(question!.id);
    expect((await asked())?.question?.note).toMatch(/^The last answer was refused: .*must be even/);
    expect(await b.jobs.get(JOB)).toMatchObject({ status: "awaiting", open_questions: 1, run_count: 1 });
    await b.runner.answer(JOB, id, { answer: { n: 4 }, message: null });

    await expect.poll(async () => isTerminal((await b.jobs.get(JOB)).status)).toBe(true);
    expect(await b.jobs.get(JOB)).toMatchObject({ status: "completed", result: 4 });
    expect(told).toHaveLength(tells ? 1 : 0);
  },
);

test("after an answer at another instance, the next question in the same case is open, however slowly the store reads", async () => {
  const store = await emptyStore();
  const slow: Store = new Proxy(store, {
    get: (_, name) => {
      const member: unknown = Reflect.get(store, name, store);
      if (name !== "table") return typeof member === "function" ? member.bind(store) : member;
      return (table: "EventWait") => {
        const { list, ...others } = store.table(table);
        if (table !== "EventWait") return store.table(table);
        return {
          ...others,
          list: async (query: never) => {
            await new Promise((resolve) => setTimeout(resolve, 100));
            return list(query);
          },
        };
      };
    },
  });
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "c", name: "c" });
    const answers: unknown[] = [];
    for (const question of ["first", "second"])
      answers.push(await item.ask(question, { question, fields: v.object({ n: v.number() }) }));
    return answers;
  });
  const [a, b] = [await join(slow, agent), await join(store, agent)];
  await a.start();
  const asked = async () => (await b.cases.list({ where: { job_id: JOB } })).items[0];
  const answer = async (question: string, n: number) => {
    await expect.poll(async () => (await asked())?.question?.question).toBe(question);
    await b.runner.answer(JOB, (await asked())!.id, { answer: { n }, message: null });
  };

  await answer("first", 1);
  await expect.poll(async () => (await asked())?.question?.question).toBe("second");
  await new Promise((resolve) => setTimeout(resolve, 300));
  await answer("second", 2);

  await expect.poll(async () => isTerminal((await b.jobs.get(JOB)).status)).toBe(true);
  expect(await b.jobs.get(JOB)).toMatchObject({ status: "completed", result: [{ n: 1 }, { n: 2 }] });
});

test("a question that was answered at another instance before its job asks it again there is not asked again", async () => {
  const store = await emptyStore();
  const [held, reached] = [gate(), gate()];
  let isSecond = false;
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "c", name: "c" });
    // Something of its own, which is no step.
    if (isSecond) {
      reached.open();
      await held.opened;
    }
    return item.ask("number", { question: "Which number?", fields: v.object({ n: v.number() }) });
  });
  const a = await join(store, agent);
  await a.start();
  const asked = async () => (await a.cases.list({ where: { job_id: JOB } })).items[0]?.question;
  await expect.poll(asked).toBeTruthy();
  isSecond = true;
  const c = await join(
    store,
    agentOf(() => "another agent", { name: "Other" }),
  );
  a.die();
  await bury(a, store);
  await join(store, agent);
  await reached.opened;

  await c.runner.answer(JOB, (await c.cases.list({ where: { job_id: JOB } })).items[0]!.id, {
    ...{ answer: { n: 3 }, message: null },
  });
  held.open();

  await expect.poll(async () => (await c.jobs.get(JOB)).status).toBe("completed");
  expect((await c.jobs.get(JOB)).result).toEqual({ n: 3 });
  const log = await c.jobs.log(JOB);
  expect(log.filter(({ entry }) => entry.type === "answer")).toHaveLength(1);
  expect(log.filter(({ entry }) => entry.type === "begun")).toHaveLength(1);
});
