import { expect, test } from "vitest";
import { openParts } from "../../src/core/runs/open-parts.ts";
import { stopJob } from "../../src/core/runs/operate/steer.ts";
import { Starts } from "../../src/core/runs/queue/start.ts";
import { agentOf } from "./_agent.ts";
import { jobContext } from "./_jobs.ts";
import { emptyStore, JOB, Life } from "./_lives.ts";

test("a stop that is stored in the moment in which the run leaves its job to a new process ends the job", async () => {
  const stopped: string[] = [];
  const agent = agentOf(({ job }) => job.step("work", () => new Promise(() => {})), {
    methods: { job_stop: { run: ({ job }) => void stopped.push(job.id) } },
  });
  const life = new Life(await emptyStore(), agent);
  const { parts } = openParts(life.parts);
  await new Starts(parts).start("worker", { job_context: jobContext(JOB), job_fields: {} });
  life.hooks.on("job:changed", ({ job }) => {
    if (job.status !== "cancelling") return;
    parts.runs
      .find(JOB)
      ?.abandon({ to: "cancelled", reason: "interrupted", message: "It moves to a new process" });
  });

  await stopJob(parts, JOB, "someone");

  await expect.poll(async () => (await life.jobs.get(JOB)).status).toBe("cancelled");
  expect(stopped).toEqual([JOB]);
});
