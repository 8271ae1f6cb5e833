import { expect, test } from "vitest";
import { greeter } from "../_setup.ts";
import { seedJob } from "../admin/_seed.ts";
import { start } from "./_in-process.ts";

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
