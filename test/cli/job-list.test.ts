import { defineAgent } from "agent-control-service";
import { expect, test } from "vitest";
import { greeter } from "../_setup.ts";
import { seedJob } from "../admin/_seed.ts";
import { start } from "./_in-process.ts";

test("svc job list says whose each job is, and how old", async () => {
  await using here = await start({ agents: [greeter] });
  await seedJob(here.server.service, { id: "new", status: "completed" });

  const { text } = await here.svc("job", "list");
  const json = await here.svc("job", "list", "--json");

  expect(text).toMatch(/^job\s+agent\s+status\s+created\s+message$/m);
  expect(text).toMatch(/^new\s+greeter\s+completed\s+(just now|.* ago)\s+The job/m);
  expect(JSON.parse(json.text)).toMatchObject([
    { job_id: "new", agent_name: "greeter", created_at: expect.any(String) },
  ]);
});

test("svc job show lists some of many cases, those that are not completed first", async () => {
  const batch = defineAgent({
    name: "Batch",
    version: "1.0.0",
    instructions: { stop_on_error: false },
    methods: {
      job_start: {
        fields: [],
        async run({ job }) {
          for (let n = 1; n <= 60; n++) {
            const item = await job.openCase({ id: `page-${n}`, name: `Page ${n}` });
            await (n === 55 ? item.fail("unreadable") : item.close());
          }
          return "x".repeat(9000);
        },
      },
    },
  });
  await using here = await start({ agents: [batch] });
  await here.svc("job", "start", "batch", "--id", "many", "--wait");

  const { text } = await here.svc("job", "show", "many");
  const all = await here.svc("job", "show", "many", "--all");

  expect(text.match(/ Page \d+$/gm)).toHaveLength(40);
  expect(text).toMatch(/failed .* Page 55$/m);
  expect(text).toContain("40 of 60 cases (59 completed, 1 failed). All of them: npx svc job show many --all");
  expect(text).toContain("npx svc job show many --json");
  expect(text.length).toBeLessThan(9000);
  expect(all.text.match(/ Page \d+$/gm)).toHaveLength(60);
});

test("svc job list has the jobs that ended for a reason", async () => {
  await using here = await start({ agents: [greeter] });
  await seedJob(here.server.service, { id: "dear", status: "failed", stop_reason: "max_cost" });
  await seedJob(here.server.service, { id: "broken", status: "failed", stop_reason: "error" });

  const dear = await here.svc("job", "list", "--stop-reason", "max_cost", "--json");
  const none = await here.svc("job", "list", "--stop-reason", "code_changed");
  const wrong = await here.svc("job", "list", "--stop-reason", "cost");

  expect(JSON.parse(dear.text)).toMatchObject([{ job_id: "dear" }]);
  expect(none.text).toMatch(/^No matching jobs/);
  expect(wrong.code).not.toBe(0);
  expect(wrong.text).toContain("--stop-reason");
});
