import { events } from "agent-control-service";
import { testServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { CONTROL_SYSTEM } from "../../src/core/service/tokens.ts";
import { greeter } from "../_setup.ts";
import { bodies, sharedControl } from "./_control.ts";
import { workThrough } from "./_work.ts";

const shared = sharedControl();
const impatient = () =>
  events({ timeout: 0.5, backoff: { initial: 0.02, max: 0.2 }, breaker: { initial: 0.05, max: 0.3 } });

function start() {
  return testServer({ agents: [greeter], account: shared().account, plugins: [impatient()] });
}

it("a message that is permanently refused becomes a dead letter immediately, the others pass", async () => {
  const control = shared();
  await control.obey({ mode: "400", match: '"index":2' });
  await using server = await start();

  await workThrough(server.service, "job-1", { updates: 3 });

  const received = await control.waitFor(2 + 6);
  const indexes = bodies(received).flatMap(({ details }) => details.index ?? []);
  expect(indexes).toEqual([1, 3, 4]);
  const control_system = server.service.get(CONTROL_SYSTEM);
  await expect.poll(() => control_system.counts()).toMatchObject({ waiting: 0, dead: 1 });
  const { items } = await control_system.list({ state: "dead" });
  expect(items[0]).toMatchObject({
    type: "agent.case.update",
    stream: "job-1",
    target: "control",
    status: 400,
    attempts: 1,
    error: expect.stringContaining("responded with 400"),
  });
});

it("dead letters are listed, sent again under their keys, and dropped over the admin API", async () => {
  const control = shared();
  await control.obey({ mode: "400", match: '"index":' });
  await using server = await start();
  await workThrough(server.service, "job-1", { updates: 2 });
  await control.waitFor(2 + 3);
  const list = async () => {
    const response = await server.request("/admin/api/events?state=dead");
    return (await response.json()) as { items: { id: string; event_id: string }[]; total: number };
  };
  await expect.poll(async () => (await list()).total).toBe(3);
  const [oldest, , newest] = (await list()).items.sort((a, b) => (a.id < b.id ? -1 : 1));

  await control.obey({ mode: "ok" });
  const dropped = await server.request("/admin/api/events/drop", { json: { ids: [newest!.id] } });
  const retried = await server.request("/admin/api/events/retry", { json: { ids: "all" } });

  expect(await dropped.json()).toEqual({ dropped: 1 });
  expect(await retried.json()).toEqual({ retried: 2 });
  const indexes = async () =>
    new Set(bodies(await control.waitFor(2 + 5)).flatMap(({ details }) => details.index ?? []));
  await expect.poll(indexes).toEqual(new Set([1, 2]));
  const received = await control.received();
  expect(received.map((item) => item.key)).toContain(oldest!.event_id);
  const status = async () => (await server.request("/admin/api/events/status")).json();
  // The control system has a message before the service knows that it has.
  await expect.poll(status).toMatchObject({
    mode: "connected",
    workspace_id: "dev",
    counts: { waiting: 0, dead: 0, dropped: 0 },
    targets: expect.arrayContaining([expect.objectContaining({ name: "control", state: "ok" })]),
  });
});

it("the admin API requires a key and checks its limits", async () => {
  await using server = await start();

  expect((await server.request("/admin/api/events", { key: null })).status).toBe(401);
  expect((await server.request("/admin/api/events?limit=101")).status).toBe(422);
  expect((await server.request("/admin/api/events/drop", { json: { ids: [] } })).status).toBe(422);
});

it("the account's key is in no message, log or answer", async () => {
  const control = shared();
  await control.obey({ mode: "400", match: "server.register" });
  await using server = await start();

  await control.waitFor(1);

  const answers = await Promise.all(
    ["/admin/api/events", "/admin/api/events/status", "/agents"].map(async (path) =>
      (await server.request(path)).text(),
    ),
  );
  const all = [...answers, ...server.logs, JSON.stringify(await control.received())].join("\n");
  expect(all).not.toContain(control.account.api_key);
});
