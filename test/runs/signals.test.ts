// @alone
// @long
import { expect, test } from "vitest";
import { beginSvc, project } from "../cli/_svc.ts";
import { ServiceProcess } from "./_process.ts";

const STARTING = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent } from "agent-control-service";

const slow = { name: "slow", setup: async () => {
  console.log("setting up");
  await new Promise((done) => setTimeout(done, 1500));
} };
const agent = defineAgent({
  name: "Worker", version: "1.0.0",
  methods: { job_start: { run: ({ job }) => job.step("work", async () => {
    appendFileSync("did.log", "work\\n");
    await new Promise((done) => setTimeout(done, 60_000));
  }) } },
});
export default createServer({ port: 0, agents: [agent], plugins: process.env.SLOW ? [slow] : [], shutdownGrace: 0 });
`;

test.each([
  ["SIGINT", "SIGTERM"],
  ["SIGINT", "SIGINT"],
] as const)(
  "%s and %s together, as a terminal and npm send them, count as one: the running step ends, and the next start resumes",
  async (first, second) => {
    const service = await ServiceProcess.start();
    await service.startJob("resumer", "job-1");
    await expect.poll(() => service.did()).toContain("second 1");

    service.signal(first);
    // Two of a kind sent in the same moment reach the process as one.
    await new Promise((resolve) => setTimeout(resolve, 30));
    service.signal(second);
    const code = await service.ended;
    await service.start();
    const job = await service.until("job-1", ["completed", "failed"]);

    expect(code).toBe(0);
    expect(job.status).toBe("completed");
    expect((await service.did()).filter((one) => one.startsWith("second"))).toEqual(["second 1"]);
  },
);

test.each(["SIGHUP", "SIGQUIT", "SIGUSR2"] as const)(
  "%s ends the service as SIGTERM does",
  async (signal) => {
    const service = await ServiceProcess.start();
    await service.startJob("resumer", "job-1");
    await expect.poll(() => service.did()).toContain("second 1");

    service.signal(signal);
    const code = await service.ended;
    await service.start();
    const job = await service.until("job-1", ["completed", "failed"]);

    expect(code).toBe(0);
    expect(job.status).toBe("completed");
  },
);

test("SIGTERM while the service starts: nothing is resumed, it ends with 0, and the next start has the job", async () => {
  const cwd = await project({ "controller.mjs": STARTING });
  const service = await ServiceProcess.in(cwd);
  await service.startJob("worker", "job-1");
  await expect.poll(() => service.did()).toEqual(["work"]);
  await service.kill();

  const starting = beginSvc(["start", "controller.mjs"], { cwd, env: { SLOW: "1" } });
  await starting.prints(/setting up/);
  starting.process.kill("SIGTERM");
  const { code, stdout } = await starting.finished;
  const did = await service.did();
  await service.start();

  expect(code, starting.output()).toBe(0);
  expect(stdout).not.toMatch(/127\.0\.0\.1/);
  expect(did).toEqual(["work"]);
  await expect.poll(() => service.did()).toEqual(["work", "work"]);
});
