import { expect, test } from "vitest";
import { PROCESS_TIME, project } from "../cli/_svc.ts";
import { ServiceProcess } from "./_process.ts";

const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { ChildFailedError, createServer, defineAgent, EventTimeoutError } from "agent-control-service";

const did = (what) => appendFileSync("did.log", what + "\\n");
const field = (name) => ({ name, field_type: "IntegerField", default: 0 });
const agent = (name, run, more = {}) => defineAgent({
  name, version: "1.0.0", ...more, methods: { job_start: { fields: [field("n")], run } },
});
const family = (child) => async ({ job }) => {
  const children = await Promise.all([1, 2].map((n) => job.start(child, { n }, { key: "child " + n })));
  await job.step("between", () => did("between"));
  did("recorded");
  const { id, data } = await job.waitFor("go", { where: { "job.id": job.id }, deadline: "1h" });
  const late = await job.waitFor("never", { deadline: "10ms" }).catch((error) => error instanceof EventTimeoutError && error.event);
  const bad = await job.start(child, { n: "x" }, { key: "bad" }).catch((error) => error instanceof ChildFailedError && error.child);
  const fails = await job.start("adder", { n: -1 }, { key: "fails" });
  const failed = await fails.result().catch((error) => error instanceof ChildFailedError && [error.child === fails.id, error.status, error.reason]);
  const stops = await job.start("adder", { n: 9 }, { key: "stops" });
  await stops.stop();
  const stopped = await stops.result().catch((error) => [error.status, error.reason]);
  return { id, order: data.order, late, bad, failed, stopped, sums: await Promise.all(children.map((one) => one.result())) };
};
const adder = agent("Adder", async ({ job, fields }) => {
  if (fields.n < 0) throw new Error("too small");
  const sum = await job.step("add", () => { did("add " + fields.n); return fields.n + 1; });
  const { data } = await job.waitFor("release");
  return sum + data.more;
});

export default createServer({
  port: 0,
  maxConcurrentJobs: 1,
  agents: [adder, agent("Family", family(adder)), agent("Isolated", family(adder), { isolate: { permissions: { write: ["did.log"] } } })],
});
`;

test.each(["family", "isolated"])(
  "children and events of a job of agent %s outlive kills, each once",
  async (agent) => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
    const children = async () =>
      (await (await service.send("/jobs?parent_id=job-1")).json()) as { status: string }[];
    await service.startJob(agent, "job-1");
    await expect.poll(() => service.did()).toContain("recorded");

    await service.kill();
    await service.start();
    await service.send("/events/go", { id: "g-1", data: { job: { id: "another" }, order: 1 } });
    await service.send("/events/go", { id: "g-2", data: { job: { id: "job-1" }, order: 2 } });
    await service.kill();
    await service.start();
    const again = await service.send("/events/go", { id: "g-2", data: { order: 2, job: { id: "job-1" } } });
    await expect.poll(() => service.did()).toEqual(expect.arrayContaining(["add 1", "add 2"]));
    await service.send("/events/release", { data: { more: 10 } });
    const job = await service.until("job-1", ["completed", "failed"]);

    expect(again.status).toBe(202);
    expect(job).toMatchObject({
      status: "completed",
      payload: {
        id: "g-2",
        order: 2,
        late: "never",
        bad: null,
        failed: [true, "failed", "error"],
        stopped: ["cancelled", "stopped"],
        sums: [12, 13],
      },
    });
    expect((await children()).map(({ status }) => status).sort()).toEqual([
      "cancelled",
      "completed",
      "completed",
      "failed",
    ]);
    expect((await service.did()).filter((one) => one === "between")).toHaveLength(1);
    expect(await service.end()).toBe(0);
  },
  PROCESS_TIME,
);
