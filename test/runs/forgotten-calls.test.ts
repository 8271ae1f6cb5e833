import { type AgentDefinition, defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { startJob, until } from "./_jobs.ts";

/** Says whose job it is, and what its report is, as the last of a customer's words; then waits where it is to. */
function reporter(
  customer: (given: string) => string,
  more: Partial<AgentDefinition> & { asks?: boolean } = {},
): AgentDefinition {
  const { asks = false, ...definition } = more;
  return defineAgent({
    name: "Worker",
    version: "1.0.0",
    ...definition,
    methods: {
      job_start: {
        fields: v.object({ customer: v.optional(v.string(), "acme"), fails: v.optional(v.boolean(), false) }),
        async run({ job, fields }) {
          const name = customer(fields.customer);
          const item = await job.openCase({ id: "report", name: "Report" });
          const shared = await job.file("terms.txt", "the same for all");
          await job.artifact("terms", shared);
          const report = await item.step(`report on ${name}`, ({ file }) =>
            file(`${name}.txt`, `about ${name}`),
          );
          await job.tag(name);
          await item.artifact(`report of ${name}`, report, { title: name });
          if (fields.fails) throw new Error("failed");
          if (asks) await item.ask("fine", { question: "Fine?", fields: v.object({ fine: v.boolean() }) });
          await item.close();
          return name;
        },
      },
    },
  });
}

/** What is known of a job by calls that its handler made: its tags, and its artifacts with their titles. */
async function knownOf(server: TestServer, id: string) {
  const response = await server.request(`/jobs/${id}/files`);
  const files = (await response.json()) as { artifact?: string; title?: string }[];
  const artifacts = files.flatMap(({ artifact, title }) => (artifact ? [[artifact, title]] : []));
  return { tags: (await server.service.get(JOBS).get(id)).tags ?? [], artifacts: artifacts.sort() };
}

const known = (customer: string) => ({
  tags: [customer],
  artifacts: [
    [`report of ${customer}`, customer],
    ["terms", undefined],
  ],
});

it("a fork has the artifacts of the calls that it copied, and a job that is started over those that it makes", async () => {
  let name: string | undefined;
  await using server = await testServer({ agents: [reporter((given) => name ?? given)] });
  await startJob(server.service, { id: "a", fields: { customer: "acme" } });
  await until(server.service, "a");
  expect(await knownOf(server, "a")).toEqual(known("acme"));
  const fork = async (of: string, job_id: string, from: string) => {
    const json = { from, job_id, ...(from === "start" && { fields: { customer: job_id } }) };
    expect((await server.request(`/jobs/${of}/fork`, { json })).status).toBe(202);
    await until(server.service, job_id, ["completed", "failed"]);
    return knownOf(server, job_id);
  };
  expect(await fork("a", "other", "start")).toEqual(known("other"));
  expect(await fork("other", "third", "start")).toEqual(known("third"));
  expect(await fork("a", "same", "end")).toEqual(known("acme"));
  expect(await fork("same", "fourth", "start")).toEqual(known("fourth"));
  expect(await knownOf(server, "a")).toEqual(known("acme"));

  await startJob(server.service, { id: "f", fields: { customer: "f", fails: true } });
  await until(server.service, "f", ["failed"]);
  expect(await knownOf(server, "f")).toEqual(known("f"));
  name = "again";
  const retried = await server.request("/jobs/f/retry", { json: { from: "start" } });
  expect(retried.status).toBe(202);
  await until(server.service, "f", ["failed"]);
  expect(await knownOf(server, "f")).toEqual(known("again"));
});

it("a job that starts over after an end of the process has only what its new calls say", async () => {
  let name = "first";
  const agent = reporter(() => name, { asks: true, onInterruption: "restart" });
  await using server = await testServer({ agents: [agent] });
  await startJob(server.service, { id: "a" });
  await until(server.service, "a", ["awaiting"]);
  expect(await knownOf(server, "a")).toEqual(known("first"));

  name = "second";
  await server.crash();
  await expect.poll(async () => (await knownOf(server, "a")).tags.includes("second")).toBe(true);
  await until(server.service, "a", ["awaiting"]);
  expect(await knownOf(server, "a")).toEqual(known("second"));
});

it("a held job that is continued has nothing of the calls that were skipped, and all of the others", async () => {
  await using first = await testServer({
    agents: [reporter(() => "first", { asks: true })],
    store: undefined,
  });
  await startJob(first.service, { id: "a" });
  await until(first.service, "a", ["awaiting"]);
  expect(await knownOf(first, "a")).toEqual(known("first"));
  await first.service.close();

  const agents = [reporter(() => "second", { asks: true, version: "1.1.0" })];
  await using second = await testServer({ agents, store: undefined, dataDir: first.dataDir });
  await second.service.ready();
  await expect.poll(async () => (await second.service.get(JOBS).get("a")).held).not.toBe(null);
  expect(await knownOf(second, "a")).toEqual(known("first"));
  expect((await second.request("/jobs/a/continue", { method: "POST" })).status).toBe(202);
  await expect.poll(async () => (await knownOf(second, "a")).tags).toEqual(["second"]);
  await expect.poll(() => knownOf(second, "a")).toEqual(known("second"));
});
