// @alone
import { expect, test } from "vitest";
import { project } from "../cli/_svc.ts";
import { ServiceProcess } from "./_process.ts";

const CONTROLLER = `
import { EventEmitter } from "node:events";
import { createServer, defineAgent } from "agent-control-service";

const later = (work) => new Promise(() => setTimeout(work, 20));
const did = {
  rejects: () => { Promise.reject(new Error("rejected")); },
  throws: () => later(() => { throw new Error("thrown"); }),
  emits: () => later(() => new EventEmitter().emit("error", new Error("emitted"))),
  exits: () => process.exit(0),
  breaks: ({ attempt }) => attempt > 1 ? 1 : later(() => {
    const stack = "Error: broken\\n    at store (" + import.meta.resolve("agent-control-service") + ":1:1)";
    throw Object.assign(new Error("broken"), { stack });
  }),
};
const agent = (name, run) => defineAgent({
  name, version: "1.0.0",
  methods: { job_start: { fields: [{ name: "what", field_type: "CharField", default: "" }], run } },
});
export default createServer({
  port: 0,
  shutdownGrace: 0,
  agents: [
    agent("Careless", ({ job, fields }) => job.step("work", did[fields.what], { timeout: "200ms" })),
    agent("Good", async ({ job }) => { await job.step("work", () => 1); await job.sleep("800ms"); return "good"; }),
  ],
});
`;

test("an agent's uncaught exception is logged, and does not end other jobs", async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  await service.startJob("good", "good");

  for (const what of ["rejects", "throws", "emits"]) await service.startJob("careless", what, { what });
  const good = await service.until("good", ["completed", "failed"]);
  const careless = await Promise.all(
    ["rejects", "throws", "emits"].map((id) => service.until(id, ["completed", "failed"])),
  );

  expect(good.status).toBe("completed");
  expect(careless.map(({ status }) => status)).toEqual(["completed", "failed", "failed"]);
  for (const what of ["rejected", "thrown", "emitted"]) expect(service.output).toContain(`Error: ${what}`);
  expect(await service.end()).toBe(0);
});

test("an agent that ends the process is reported, with an exit code that makes it restart", async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  await service.startJob("good", "good");

  await service.startJob("careless", "exits", { what: "exits" }).catch(() => {});
  const code = await service.ended;

  expect(code).toBe(1);
  expect(service.output).toMatch(/ended the process.*controller\.mjs/s);
});

test("an exception in the service's own code shuts it down cleanly, with 1, and the next start resumes", async () => {
  const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }));
  await service.startJob("good", "good");

  await service.startJob("careless", "breaks", { what: "breaks" });
  const code = await service.ended;
  const { output } = service;
  await service.start();

  expect(code, output).toBe(1);
  expect(output).toContain("fatal error, shutting down");
  expect((await service.until("good", ["completed", "failed"])).status).toBe("completed");
});
