import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { defineAgent, type ServerOptions } from "agent-control-service";
import { expect, test } from "vitest";
import { start as startServer } from "./_in-process.ts";

const waiter = defineAgent({
  name: "Waiter",
  version: "1.0.0",
  methods: {
    job_start: { fields: [], run: ({ job }) => job.waitFor("payment", { where: { order: 42 } }) },
  },
});

const start = (options: Partial<ServerOptions> = {}) => startServer({ agents: [waiter], ...options });

test("svc schedule lists the schedules, pauses and resumes one, and starts its job now", async () => {
  await using here = await start({ schedules: [{ id: "nightly", cron: "0 3 * * *", agent: waiter }] });
  const listed = await here.svc("schedule", "list");
  const paused = await here.svc("schedule", "pause", "nightly");
  const after = JSON.parse((await here.svc("schedule", "list", "--json")).text);
  const job = JSON.parse((await here.svc("schedule", "run", "nightly", "--json")).text);
  const resumed = await here.svc("schedule", "resume", "nightly");
  const unknown = await here.svc("schedule", "pause", "weekly");

  expect(listed.text).toMatch(/nightly\s+waiter\s+0 3 \* \* \* UTC\s+\S+T03:00:00\.000Z\s+none/);
  expect(paused).toEqual({ code: 0, text: "Schedule nightly is paused" });
  expect(after).toMatchObject([{ id: "nightly", paused: true }]);
  expect(job).toMatchObject({ agent_name: "waiter", status: expect.any(String) });
  expect(resumed.text).toMatch(/^Schedule nightly is resumed; next \S+T03:00:00\.000Z$/);
  expect(unknown).toMatchObject({ code: 1, text: expect.stringContaining("weekly") });
});

test("svc agent pauses and resumes an agent, as its health says", async () => {
  await using here = await start();

  const paused = await here.svc("agent", "pause", "waiter");
  const health = (await (await here.server.request("/agents/health")).json()) as { agents: object };
  const listed = await here.svc("agent", "list");
  const resumed = await here.svc("agent", "resume", "waiter");
  const after = await here.svc("agent", "list");
  const unknown = await here.svc("agent", "pause", "nobody");

  expect(paused).toEqual({ code: 0, text: "Agent waiter is paused: its new jobs wait" });
  expect(Object.values(health.agents)).toMatchObject([{ slug: "waiter", paused: true }]);
  expect(listed.text).toMatch(/^waiter\s+1\.0\.0\s+paused/m);
  expect(resumed).toEqual({ code: 0, text: "Agent waiter is resumed" });
  expect(after.text).toMatch(/^waiter\s+1\.0\.0\s+available/m);
  expect(unknown.code).toBe(1);
});

test("svc job assigns a question, and makes a link with which one person answers it", async () => {
  const asker = defineAgent({
    name: "Asker",
    version: "1.0.0",
    methods: {
      job_start: {
        fields: [],
        run: async ({ job }) => {
          const item = await job.openCase({ id: "order", name: "Order" });
          return item.ask({ question: "Pay?", fields: [{ name: "by", required: true }] });
        },
      },
    },
  });
  await using here = await startServer({ agents: [asker] });
  await here.server.request("/agents/asker/jobs", { json: { job_context: { job_id: "a" } } });
  await expect.poll(async () => (await here.svc("job", "show", "a")).text).toContain("Pay?");

  const assigned = await here.svc("job", "assign", "a", "--to", "finance");
  const nobody = await here.svc("job", "assign", "a", "order");
  const link = await here.svc("job", "link", "a", "--for", "Mira", "--expires-in", "3d");
  const page = await (await fetch(link.text)).text();
  const wrong = await here.svc("job", "link", "a", "other", "--for", "Mira");

  expect(assigned).toEqual({ code: 0, text: "The question of case order is assigned to finance" });
  expect(nobody.text).toBe("The question of case order is assigned to nobody");
  expect(link.text).toMatch(/^http:.*\/answer\?token=/);
  expect(page).toContain("Mira");
  expect(wrong).toMatchObject({ code: 1, text: expect.stringContaining('has no case "other"') });
});

test("svc event sends data from the command line or a file, once for each id, and lists what was received", async () => {
  await using here = await start();
  await writeFile(join(here.server.dataDir, "paid.json"), '{ "order": 43 }');
  const sent = await here.svc("event", "send", "payment", "--data", '{ "order": 42 }', "--id", "p-1");
  const again = await here.svc("event", "send", "payment", "--data", '{ "order": 42 }', "--id", "p-1");
  const other = await here.svc("event", "send", "payment", "--data", "{}", "--id", "p-1");
  await here.svc("event", "send", "refund", "--data", "@paid.json");
  const listed = JSON.parse((await here.svc("event", "list", "--json")).text);
  const refunds = await here.svc("event", "list", "--name", "refund");
  const wrong = await here.svc("event", "send", "payment", "--data", "[1]");
  const missing = await here.svc("event", "send", "payment", "--data", "@missing.json");

  expect(sent).toEqual({ code: 0, text: "Event payment was stored with id p-1" });
  expect(again).toEqual(sent);
  expect(other.code).toBe(1);
  expect(listed).toMatchObject([
    { name: "refund", data: { order: 43 } },
    { name: "payment", id: "p-1", data: { order: 42 } },
  ]);
  expect(refunds.text).toMatch(/refund\s+\S+\s+\{"order":43\}$/);
  expect(wrong).toMatchObject({ code: 2, text: expect.stringContaining("must be a JSON object") });
  expect(missing).toMatchObject({ code: 2, text: expect.stringContaining("cannot be read") });
});
