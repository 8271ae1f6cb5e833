import { defineAgent } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { JOBS } from "../../src/core/service/tokens.ts";
import { bodies, sharedControl } from "./_control.ts";

const shared = sharedControl();

const asker = defineAgent({
  name: "Asker",
  version: "1.0.0",
  methods: {
    job_start: {
      async run({ job }) {
        const item = await job.openCase({ id: "c1", name: "One", description: "" });
        await item.step("work", () => 1, { cost: 0.5 });
        await item.update({ name: "half way", payload: { seen: 1 } });
        await item.ask({ question: "Continue?", fields: [{ name: "yes", field_type: "BooleanField" }] });
        await item.close({ done: true });
        return { message: "done" };
      },
    },
  },
});

it("a job run by an agent is reported from start to end, including question and answer", async () => {
  const control = shared();
  await using server = await testServer({ agents: [asker], account: control.account });
  const job_context = {
    workspace_id: "dev",
    job_id: "job-1",
    started_by: "test",
    started_at: "2026-01-01T00:00:00Z",
    mission_id: "m",
    mission_name: "Mission",
  };

  await server.request("/agents/asker/jobs", { json: { job_context, job_fields: {} } });
  const status = async () => (await server.service.get(JOBS).get("job-1")).status;
  await expect.poll(status).toBe("awaiting");
  await server.request("/jobs/job-1/cases/c1/update", { json: { answer: { yes: true } } });
  await expect.poll(status).toBe("completed");

  await expect.poll(async () => bodies(await control.received()).at(-1)?.event_type).toBe("agent.job.end");
  const received = await control.received();
  expect(received.flatMap((item) => item.problems)).toEqual([]);
  const told = bodies(received).filter((body) => body.source.job === "job-1");
  expect(told.map((body) => body.event_type).slice(0, 2)).toEqual([
    "agent.job.start.confirmation",
    "agent.case.start",
  ]);
  const updates = told.filter((body) => body.event_type === "agent.case.update");
  expect(updates.map(({ details }) => details.index)).toEqual(updates.map((_, at) => at + 1));
  expect(updates.map(({ details }) => details.is_final)).toEqual(
    updates.map((_, at) => at === updates.length - 1),
  );
  expect(updates.map(({ details }) => details.name)).toEqual(
    expect.arrayContaining(["half way", "Continue?", "answer", "close"]),
  );
  expect(told.length).toBe(updates.length + 3);
});
