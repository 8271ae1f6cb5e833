import type { AgentDefinition } from "agent-control-service";
import { CASES, JOBS, RUNNER } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, test } from "vitest";
import { agentOf, gate } from "./_agent.ts";
import { startJob, until } from "./_jobs.ts";

/** Starts a service on the folder of another one that has ended. */
async function again(before: TestServer, agent: AgentDefinition): Promise<TestServer> {
  const server = await testServer({ agents: [agent], store: undefined, dataDir: before.dataDir });
  await server.service.ready();
  return server;
}

test.each([
  ["fail", "failed", "failed", null],
  ["cancel", "cancelled", "cancelled", null],
  ["default", "completed", "completed", { text: "nobody" }],
] as const)(
  "a deadline that passes while the process is down takes effect at the next start: %s",
  async (onTimeout, inCase, inJob, result) => {
    const agent = agentOf(async ({ job }) => {
      const item = await job.openCase({ id: "a", name: "a" });
      const fields = [{ name: "text", required: true }];
      const options = { deadline: "1500ms" as const, onTimeout, default: { text: "nobody" } };
      const answer = await item.ask({ question: "What?", fields, ...options });
      await item.close(answer);
      return answer;
    });
    await using first = await testServer({ agents: [agent], store: undefined });
    await startJob(first.service, { id: "job-1" });
    await until(first.service, "job-1", ["awaiting"]);
    const deadline = (await first.service.get(CASES).get("a")).question?.deadline;
    await first.service.close();
    await new Promise((resolve) => setTimeout(resolve, Date.parse(deadline!) - Date.now() + 50));

    await using second = await again(first, agent);
    const late = second.service.get(RUNNER).answer("job-1", "a", { answer: { text: "late" }, message: null });
    await expect(late).rejects.toMatchObject({ type: "invalid_transition", status: 409 });
    const job = await until(second.service, "job-1");

    expect(job).toMatchObject({ status: inJob, result });
    const item = await second.service.get(CASES).get("a");
    expect(item.status).toBe(inCase);
    expect(item.updates.filter(({ name }) => name === "What?")).toHaveLength(1);
  },
);

test("a stream continues across a restart, without a gap or a repeat", async () => {
  const [begun, goOn] = [gate(), gate()];
  let isSecond = false;
  const agent = agentOf(async ({ job }) => {
    for (let n = 1; n <= 40; n++) {
      await job.step(`step ${n}`, () => n);
      if (n < 20 || isSecond) continue;
      begun.open();
      await goOn.opened;
    }
    return "done";
  });
  const read = async (server: TestServer, last: string | undefined, isEnough: (text: string) => boolean) => {
    const headers = last === undefined ? undefined : { "last-event-id": last };
    const response = await server.request("/jobs/job-1/stream", { headers });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      text += part.value;
      if (isEnough(text)) break;
    }
    await reader.cancel();
    return [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id));
  };
  await using first = await testServer({ agents: [agent], store: undefined, shutdownGrace: 0 });
  await startJob(first.service, { id: "job-1" });
  await begun.opened;
  const before = await read(first, undefined, (text) => text.includes('"step 15"'));
  await first.service.close();
  isSecond = true;

  await using second = await again(first, agent);
  const after = await read(second, String(before.at(-1)), (text) => text.includes("event: end"));

  const all = [...before, ...after];
  const count = (await second.service.get(JOBS).log("job-1")).length;
  expect(all).toEqual(Array.from({ length: count }, (_, at) => at + 1));
  expect(count).toBeGreaterThanOrEqual(44);
});

test("the second answer gets an error, and the first one's answer is in the case", async () => {
  const [answered, goOn] = [gate(), gate()];
  const agent = agentOf(async ({ job }) => {
    const item = await job.openCase({ id: "a", name: "a" });
    await item.ask({ question: "What?", fields: [{ name: "text", required: true }] });
    answered.open();
    await goOn.opened;
  });
  await using server = await testServer({ agents: [agent] });
  await startJob(server.service, { id: "job-1" });
  await until(server.service, "job-1", ["awaiting"]);
  const answer = (text: string) =>
    server.request("/jobs/job-1/cases/a/update", { json: { answer: { text } } });

  const responses = await Promise.all(["one", "two", "three"].map(answer));
  await answered.opened;
  const item = await server.service.get(CASES).get("a");
  goOn.open();

  expect(responses.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
  const refused = (await responses.find(({ status }) => status === 409)!.json()) as { detail: string };
  expect(refused.detail).toBe('The current status is "in_progress". The first answer to a question wins.');
  const winner = ["one", "two", "three"][responses.findIndex(({ status }) => status === 200)];
  const answers = item.updates.filter(({ name }) => name === "answer");
  expect(answers.map(({ payload }) => payload)).toEqual([{ answer: { text: winner }, message: null }]);
});
