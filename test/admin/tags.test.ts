import { type AgentDefinition, defineAgent } from "agent-control-service";
import { JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import * as v from "valibot";
import { expect, it } from "vitest";
import { PROCESS_TIME, project } from "../cli/_svc.ts";
import { jobContext, until } from "../runs/_jobs.ts";
import { ServiceProcess } from "../runs/_process.ts";

/** Finds out whose order it is, and waits for an answer; may start a child. */
const sorter: AgentDefinition = defineAgent({
  name: "Sorter",
  version: "1.0.0",
  methods: {
    job_start: {
      fields: v.object({ order: v.string(), customer: v.string(), does: v.optional(v.string()) }),
      async run({ job, fields: { order, customer, does } }) {
        const name = await job.step("look up", () => customer);
        await job.tag(`customer:${name}`, "Kind: Order");
        if (does === "many") await job.tag(...Array.from({ length: 19 }, (_, n) => `n:${n}`));
        if (does === "wrong") await job.tag("a, b");
        if (does === "ask") {
          const item = await job.openCase({ id: `case-${job.id}`, name: "Case" });
          await item.ask({ question: "Fine?", fields: v.object({ fine: v.boolean() }) });
          await item.close();
        }
        if (does === "child") {
          await (await job.start("sorter", { order: `${order}-child`, customer: "child" })).result();
        }
        return name;
      },
    },
  },
});

const start = (server: TestServer, id: string, job_fields: object, more: object = {}) =>
  server.request("/agents/sorter/jobs", {
    json: { job_context: { ...jobContext(id), started_by: `user of ${id}` }, job_fields, ...more },
  });
const run = async (server: TestServer, id: string, job_fields: object, more: object = {}) => {
  await start(server, id, job_fields, more);
  return until(server.service, id);
};
const found = async (server: TestServer, query: object) => {
  const { items, total } = (await (
    await server.request(`/admin/api/jobs?${new URLSearchParams(query as Record<string, string>)}`)
  ).json()) as { items: { id: string }[]; total: number };
  expect(items).toHaveLength(total);
  return items.map(({ id }) => id).sort();
};

it("jobs are found by the tags of their start and of their handler, by who started them, and by their input", async () => {
  await using server = await testServer({ agents: [sorter] });
  await run(server, "a", { order: "HL-9100", customer: "Acme" }, { tags: ["vip", "vip", "region:eu"] });
  await run(server, "b", { order: "HL-9101", customer: "acme" });
  await run(server, "c", { order: "HL-9102", customer: "acme inc" });

  expect((await server.service.get(JOBS).get("a")).tags).toEqual([
    "vip",
    "region:eu",
    "customer:Acme",
    "Kind: Order",
  ]);
  expect(await found(server, { tag: "customer:acme" })).toEqual(["a", "b"]);
  expect(await found(server, { tag: "vip", status: "completed" })).toEqual(["a"]);
  expect(await found(server, { tag: "customer" })).toEqual([]);
  expect(await found(server, { search: "HL-9101" })).toEqual(["b"]);
  expect(await found(server, { started_by: "user of c" })).toEqual(["c"]);

  const machine = await server.request("/jobs?tag=customer:acme&limit=1");
  const [first] = (await machine.json()) as { job_id: string; tags: string[] }[];
  expect([machine.headers.get("x-total-count"), first?.job_id]).toEqual(["2", "b"]);
  expect(first?.tags).toEqual(["customer:acme", "Kind: Order"]);
  const after = machine.headers.get("x-next-cursor")!;
  const next = await server.request(`/jobs?tag=customer:acme&limit=1&after=${after}`);
  expect(await next.json()).toMatchObject([{ job_id: "a" }]);

  const csv = await (await server.request("/admin/api/jobs/export?tag=vip")).text();
  expect(csv).toContain('"vip, region:eu, customer:Acme, Kind: Order",user of a');
  const palette = (await (await server.request("/admin/api/find?q=ACME")).json()) as { items: object[] };
  expect(palette.items).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ kind: "Tag", label: "customer:acme", about: "1 job" }),
      expect.objectContaining({ kind: "Tag", label: "customer:acme inc" }),
    ]),
  );
  const html = await (await server.request("/admin/jobs", { headers: { accept: "text/html" } })).text();
  expect(html).toContain('<a class="tag" href="/admin/jobs?tag=region%3Aeu"');
  const tabs = await (
    await server.request("/admin/jobs?tag=vip", { headers: { accept: "text/html" } })
  ).text();
  expect(tabs).toMatch(/>All<span class="count">1</);
});

it("find says how many jobs and cases have a text where it does not show all, and leads to their list", async () => {
  await using server = await testServer({ agents: [sorter] });
  for (let n = 0; n < 7; n++) await start(server, `seven-${n}`, { order: "1", customer: "c", does: "ask" });
  const search = async (q: string) => {
    const { items } = (await (await server.request(`/admin/api/find?q=${q}`)).json()) as {
      items: { kind: string; label: string; about: string; href: string }[];
    };
    return items.filter(({ label }) => label.startsWith("All "));
  };

  await expect
    .poll(() => search("seven-"))
    .toEqual([
      { kind: "Job", label: "All 7 jobs", about: "with “seven-”", href: "/admin/jobs?search=seven-" },
      { kind: "Case", label: "All 7 cases", about: "with “seven-”", href: "/admin/cases?search=seven-" },
    ]);
  expect(await found(server, { search: "seven-" })).toHaveLength(7);
  expect(await search("seven-1")).toEqual([]);
});

it("a tag is added once, whatever is resumed, and a job has 20 at most", async () => {
  await using server = await testServer({ agents: [sorter] });
  await start(server, "a", { order: "1", customer: "acme", does: "ask" }, { tags: ["vip"] });
  const tags = async (id: string) => (await server.service.get(JOBS).get(id)).tags;
  await expect.poll(async () => (await server.service.get(JOBS).get("a")).status).toBe("awaiting");
  await server.crash();
  expect(await tags("a")).toEqual(["vip", "customer:acme", "Kind: Order"]);
  const answer = await server.request("/jobs/a/cases/case-a/update", { json: { answer: { fine: true } } });
  expect(answer.status).toBe(200);
  expect(await until(server.service, "a")).toMatchObject({ status: "completed" });
  expect(await tags("a")).toEqual(["vip", "customer:acme", "Kind: Order"]);
  const log = await server.service.get(JOBS).log("a");
  expect(log.filter(({ entry }) => entry.type === "call" && entry.call === "tag")).toHaveLength(1);

  expect(await run(server, "many", { order: "2", customer: "x", does: "many" })).toMatchObject({
    status: "failed",
    error: expect.stringContaining("a job has at most 20 tags"),
  });
  expect(await run(server, "wrong", { order: "3", customer: "x", does: "wrong" })).toMatchObject({
    status: "failed",
    error: expect.stringContaining("without commas"),
  });
  const refused = await start(server, "no", { order: "4", customer: "x" }, { tags: [" x"] });
  expect(refused.status).toBe(422);
  const other = await start(server, "many", { order: "2", customer: "x", does: "many" }, { tags: ["y"] });
  expect(other.status).toBe(409);
});

it("a fork has the tags that its original had at that call, and a job that is started over those of its start", async () => {
  await using server = await testServer({ agents: [sorter] });
  const jobs = server.service.get(JOBS);
  await run(server, "a", { order: "1", customer: "acme" }, { tags: ["vip", "Kind: Order"] });
  const fork = async (of: string, job_id: string, from: string, customer: string) => {
    const json = { from, job_id, fields: { customer } };
    expect((await server.request(`/jobs/${of}/fork`, { json })).status).toBe(202);
    return (await until(server.service, job_id)).tags;
  };
  expect((await jobs.get("a")).tags).toEqual(["vip", "Kind: Order", "customer:acme"]);

  expect(await fork("a", "b", "start", "other")).toEqual(["vip", "Kind: Order", "customer:other"]);
  expect(await fork("b", "c", "start", "third")).toEqual(["vip", "Kind: Order", "customer:third"]);
  expect(await fork("a", "d", "end", "other")).toEqual(["vip", "Kind: Order", "customer:acme"]);
  expect(await fork("d", "e", "start", "fourth")).toEqual(["vip", "Kind: Order", "customer:fourth"]);
  expect(await found(server, { tag: "customer:acme" })).toEqual(["a", "d"]);

  await start(server, "f", { order: "1", customer: "acme", does: "wrong" }, { tags: ["vip"] });
  expect((await until(server.service, "f")).tags).toEqual(["vip", "customer:acme", "Kind: Order"]);
  const retried = await server.request("/jobs/f/retry", { json: { from: "start" } });
  expect(await retried.json()).toMatchObject({ status: "stopped", tags: ["vip"] });
});

it("a child and a fork have the tags of the job that they come from", async () => {
  await using server = await testServer({ agents: [sorter] });
  await run(server, "a", { order: "1", customer: "acme", does: "child" }, { tags: ["vip"] });
  await server.request("/jobs/a/fork", { json: { from: "start", job_id: "fork" } });
  await until(server.service, "fork");

  const jobs = server.service.get(JOBS);
  const [child] = (await jobs.list({ where: { parent_id: "a" } })).items;
  expect(child?.tags).toEqual(["vip", "customer:acme", "Kind: Order", "customer:child"]);
  expect((await jobs.get("fork")).tags?.slice(0, 3)).toEqual(["vip", "customer:acme", "Kind: Order"]);
});

it(
  "an isolated agent tags its jobs, also those that are resumed in a new process",
  async () => {
    const folder = await project({
      "controller.mjs": `
import { createServer, defineAgent } from "agent-control-service";
const run = async ({ job }) => {
  await job.tag("customer:acme", "vip");
  const item = await job.openCase({ id: job.id + "-case", name: "a" });
  await item.ask({ question: "Fine?", fields: [{ name: "text", required: true }] });
  await job.tag("answered");
  await item.close();
};
const agents = [defineAgent({ name: "apart", version: "1.0.0", isolate: true, methods: { job_start: { run } } })];
export default createServer({ agents, port: 0 });
`,
    });
    const service = await ServiceProcess.in(folder);
    await service.startJob("apart", "one");
    await service.until("one", ["awaiting"]);
    await service.kill();
    await service.start();
    await service.until("one", ["awaiting"]);
    await service.send("/jobs/one/cases/one-case/update", { answer: { text: "this" } });
    await service.until("one", ["completed", "failed"]);

    const listed = (await (await service.send("/jobs")).json()) as {
      job_id: string;
      status: string;
      tags: string[];
    }[];
    expect(listed).toMatchObject([
      { job_id: "one", status: "completed", tags: ["customer:acme", "vip", "answered"] },
    ]);
  },
  PROCESS_TIME,
);
