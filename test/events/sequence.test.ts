import { events } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { AGENT_SETTINGS, CONTROL_SYSTEM, EVENTS } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { bodies, sharedControl } from "./_control.ts";
import { workThrough } from "./_work.ts";

const shared = sharedControl();

it("registration, then the events of a job, each valid, in order, with indexes without gaps", async () => {
  const control = shared();
  await using server = await testServer({ agents: [greeter], account: control.account });

  await workThrough(server.service, "job-1", { cases: 2, updates: 2 });

  const received = await control.waitFor(2 + 1 + 2 * (1 + 3) + 1);
  expect(received.flatMap((item) => item.problems)).toEqual([]);
  const told = bodies(received).filter((body) => body.source.job !== "job-1");
  expect(told.map((body) => [body.event_type, body.object_type, body.source])).toEqual([
    ["server.register", "server", { server: "server:server_instance" }],
    ["agent.register", "agent", { agent: "greeter" }],
  ]);
  expect(told[0]!.details).toMatchObject({
    url: server.url,
    docs: `${server.url}/docs`,
    environment: "dev",
    public_key: expect.stringContaining("BEGIN PUBLIC KEY"),
    agents: [expect.objectContaining({ slug: "greeter" })],
  });
  expect(told[1]!.details).toMatchObject({ name: "Greeter", polling: false });
  const job = bodies(received).filter((body) => body.source.job === "job-1");
  expect(job.map(({ event_type, source, details }) => [event_type, source.case, details.index])).toEqual([
    ["agent.job.start.confirmation", undefined, undefined],
    ["agent.case.start", "job-1.c1", undefined],
    ["agent.case.update", "job-1.c1", 1],
    ["agent.case.update", "job-1.c1", 2],
    ["agent.case.update", "job-1.c1", 3],
    ["agent.case.start", "job-1.c2", undefined],
    ["agent.case.update", "job-1.c2", 1],
    ["agent.case.update", "job-1.c2", 2],
    ["agent.case.update", "job-1.c2", 3],
    ["agent.job.end", undefined, undefined],
  ]);
  expect(job[1]!.details).toMatchObject({ case_id: "job-1.c1", job_id: "job-1", case_ref: "job-1-job-1.c1" });
  expect(job.map(({ details }) => details.is_final).filter((final) => final === true)).toHaveLength(2);
  expect(job[0]!.details).not.toHaveProperty("agent_parameters");
  expect(JSON.stringify(received)).not.toContain(server.key);
});

it("a failed job ends with agent.job.error", async () => {
  const control = shared();
  await using server = await testServer({ agents: [greeter], account: control.account });

  await workThrough(server.service, "job-1", { end: "error_encountered" });

  const received = await control.waitFor(7);
  expect(bodies(received).at(-1)).toMatchObject({
    event_type: "agent.job.error",
    details: { status: "failed" },
  });
});

it("agent.job.status reports when a job is held, and when it continues", async () => {
  const control = shared();
  await using server = await testServer({ agents: [greeter], account: control.account });

  await workThrough(server.service, "job-1", { cases: 0, held: "it was at step 1" });

  const received = await control.waitFor(6);
  expect(received.flatMap((item) => item.problems)).toEqual([]);
  const told = bodies(received).filter((body) => body.source.job === "job-1");
  const types = told.map(({ event_type }) => event_type);
  expect(types).toEqual([
    "agent.job.start.confirmation",
    "agent.job.status",
    "agent.job.status",
    "agent.job.end",
  ]);
  expect(told[1]!.details).toMatchObject({
    status: "awaiting",
    stop_reason: "crash_loop",
    error: "it was at step 1",
  });
});

it("without an account nothing is stored or sent", async () => {
  await using server = await testServer({ agents: [greeter] });

  await workThrough(server.service, "job-1");

  expect(await server.service.get(CONTROL_SYSTEM).counts()).toEqual({
    waiting: 0,
    dead: 0,
    delivered: 0,
    dropped: 0,
  });
  expect(server.service.get(CONTROL_SYSTEM).status()).toMatchObject({ mode: "local", targets: [] });
});

it("a third party's events are delivered the same way", async () => {
  const control = shared();
  await using server = await testServer({
    agents: [greeter],
    account: control.account,
    plugins: [
      events(),
      {
        name: "watcher",
        dependsOn: ["events"],
        setup: ({ get, hooks }) => {
          hooks.on("service:ready", async () => {
            await get(EVENTS).emit({
              source: { agent: "greeter" },
              type: "agent.anomaly",
              object_type: "agent",
              details: { seen: "something odd" },
            });
          });
        },
      },
    ],
  });

  const received = await control.waitFor(3);
  expect(bodies(received).map((body) => body.event_type)).toContain("agent.anomaly");
  expect(server.logs.join("")).not.toContain("failed");
});

it("applies what the control system stores for an agent", async () => {
  const control = shared();
  await control.request("/_control/agents/greeter", {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ status: "active", onboarding_status: "completed" }),
  });
  await using server = await testServer({ agents: [greeter], account: control.account });

  await control.waitFor(2);

  await expect
    .poll(() => server.service.get(AGENT_SETTINGS).find("greeter"))
    .toMatchObject({ onboarding_status: "completed" });
});
