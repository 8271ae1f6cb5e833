import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { AgentDefinition } from "agent-control-service";
import { RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { expect, onTestFinished, test } from "vitest";
import { agentOf } from "./_agent.ts";
import { Deploys } from "./_deploys.ts";
import { jobContext, until } from "./_jobs.ts";

/** Makes each call with an option that it does not know; returns what was said, and which functions ran. */
const MODULE = `
const ran = [];
export const worker = {
  name: "Apart",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const item = await job.openCase({ id: "case", name: "Case" });
        const request = { model: "small" };
        const calls = [
          () => job.step("pay", () => ran.push("pay"), { retrys: 3 }),
          () => item.step("pay", async ({ attempt }) => ran.push(attempt), { backoff: { initail: "1s" } }),
          () => job.model("ask", request, () => ran.push("model"), { max_tokens: 5 }),
          () => job.sleep(1, { kee: "a" }),
          () => job.start("apart", {}, { detach: true }),
          () => job.waitFor("paid", { were: { order: 1 }, deadline: "1ms" }),
          () => item.update({ name: "note" }, { kee: "a" }),
          () => item.ask({ name: "approve", question: "Pay it?", fields: [] }),
          () => item.ask("approve", { question: "Pay it?", fields: [], deadlin: "1d" }),
          () => item.close({}, { costs: 1 }),
          () => job.openCase({ id: "other", name: "Other", desciption: "x" }),
          () => item.update({ name: "note", paylod: { a: 1 } }),
          () => item.update({ name: "note", is_finl: true }),
          () => item.ask("approve", { question: "Pay it?", fields: [], escalate: { after: "1d", two: "boss" } }),
          () => item.ask("approve", { question: "Pay it?", fields: [{ name: "ok" }, { name: "by", requierd: true }] }),
          () => job.step("cost", ({ report }) => report({ costs: 1 })),
          () => job.step("use", ({ report }) => report({ usage: { inputTokns: 1, outputTokens: 1 } })),
          () => job.step("sdk", ({ report }) => void report({ usage: { inputTokens: 1, totalTokens: 2, raw: {} } })),
        ];
        const said = [];
        for (const call of calls) said.push(await call().then(() => "accepted", (error) => error.name + ": " + error.message));
        // An option that is not set is none.
        await job.step("fine", () => 1, { retries: 0, nothing: undefined });
        return { said, ran };
      },
    },
  },
};
`;

test("an option that a call does not know is refused before anything is done, in an isolated agent too", async () => {
  const folder = await mkdtemp(join(tmpdir(), "unknown-options-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const module = join(folder, "agent.mjs");
  await writeFile(module, MODULE);
  const { worker } = (await import(module)) as { worker: AgentDefinition };
  const agents = [
    { ...worker, name: "Here" },
    { ...worker, isolate: { module } },
  ];
  await using server = await testServer({ agents });

  for (const agent of ["here", "apart"]) {
    await server.service.get(RUNNER).start(agent, { job_context: jobContext(agent), job_fields: {} });
    const job = await until(server.service, agent);

    expect(job.result, agent).toEqual({
      said: [
        'TypeError: Option retrys of step "pay" is not known: did you mean retries?',
        'TypeError: Option initail of the backoff of step "pay" is not known: did you mean initial?',
        expect.stringMatching(/^TypeError: Option max_tokens of step "ask" is not known/),
        "TypeError: Option kee of sleep is not known: did you mean key?",
        'TypeError: Option detach of start("apart") is not known: did you mean detached?',
        'TypeError: Option were of waitFor("paid") is not known: did you mean where?',
        'TypeError: Option kee of the update "note" is not known: did you mean key?',
        'TypeError: Option name of ask("Pay it?") is not known: the name comes first, as in ask("approve", { … })',
        'TypeError: Option deadlin of ask("approve") is not known: did you mean deadline?',
        expect.stringMatching(
          /^TypeError: Option costs of the end of case "case" is not known: did you mean cost\?/,
        ),
        'TypeError: Option desciption of openCase("other") is not known: did you mean description?',
        'TypeError: Option paylod of the entry of the update "note" is not known: did you mean payload?',
        'TypeError: Option is_finl of the entry of the update "note" is not known: did you mean is_final?',
        'TypeError: Option two of escalate of ask("approve") is not known: did you mean to?',
        'TypeError: Option fields of ask("approve"): [1].requierd is not known: did you mean required?',
        expect.stringContaining("costs of what a step reports is not known: did you mean cost?"),
        expect.stringContaining(
          "usage.inputTokns of what a step reports is not known: did you mean inputTokens?",
        ),
        "accepted",
      ],
      ran: [],
    });
  }
});

test("a job whose record was made with such an option resumes: only a new call is refused", async () => {
  const version = (wrong: object, inField: object) =>
    agentOf(async ({ job }) => {
      const paid = await job.step("pay", () => "paid", wrong);
      const item = await job.openCase({ id: "a", name: "a", ...wrong });
      await item.update({ name: "note", ...wrong });
      await item.ask({
        question: "Continue?",
        fields: [{ name: "go", required: true, ...inField }],
        ...wrong,
      });
      return paid;
    });
  const deploys = await Deploys.start(version({}, {}));
  await deploys.question("a");

  await deploys.deploy(version({ retrys: 3 }, { requierd: true }));
  await deploys.answer("a", { go: "yes" });

  expect(await deploys.ended()).toMatchObject({ status: "completed", result: "paid" });
});
