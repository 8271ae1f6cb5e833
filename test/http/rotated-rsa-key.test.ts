import { JOBS } from "agent-control-service/plugin";
import type { TestServer } from "agent-control-service/testing";
import { expect, it } from "vitest";
import { AUDIT, PARAMETERS, STORE } from "../../src/core/service/tokens.ts";
import { signIn } from "../admin/_sign-in.ts";
import { answer, makeKey, serve, show, start } from "./_payer.ts";

const [oldest, former, present] = [makeKey(), makeKey(), makeKey()];

const actions = async (server: TestServer) =>
  (await server.service.get(AUDIT).list()).items.map(({ action }) => action);
const keptEnvelopes = async ({ service }: TestServer) => {
  const limit = Number.POSITIVE_INFINITY;
  const [jobs, settings] = await Promise.all([
    service.get(STORE).table("Job").list({ limit }),
    service.get(STORE).table("AgentSetting").list({ limit }),
  ]);
  return [
    ...jobs.items.map((job) => job.encrypted_agent_parameters),
    ...settings.items.map((setting) => setting.parameters_encrypted),
  ].filter((one) => one !== null);
};
const isRenewed = (server: TestServer) =>
  expect
    .poll(async () => {
      const found = await keptEnvelopes(server);
      return found.map((one) => server.service.get(PARAMETERS).renew(one).of);
    })
    .toEqual(["present", "present", "present"]);
/** Parameters for the agent, of which a job has none of its own, beside two jobs that have some. */
const fill = async (server: TestServer) => {
  await start(server, "job-1");
  await start(server, "job-2");
  const json = JSON.stringify({ TOKEN: "stored-0815" });
  const parameters_encrypted = await (await server.request("/utils/encrypt", { json })).json();
  await server.request("/agents/payer/parameters", { json: { parameters_encrypted } });
  await server.request("/agents/payer/jobs", { json: { job_context: { job_id: "job-3" }, job_fields: {} } });
  await expect.poll(async () => (await show(server, "job-3")).status).toBe("awaiting");
};

it("parameters for a former RSA key are read, and are encrypted again for the present one, which then is enough", async () => {
  const first = await serve(former);
  await fill(first);
  await first.service.close();

  const both = await serve(present, first.dataDir, former);
  await isRenewed(both);
  await expect.poll(() => actions(both)).toContain("rsa_key.renewed");
  const open = (await show(both, "job-1")).status;
  await answer(both, "job-2");
  await expect.poll(async () => (await show(both, "job-2")).status).toBe("completed");
  await both.service.close();

  const alone = await serve(present, first.dataDir);
  for (const id of ["job-1", "job-3"]) await answer(alone, id);
  for (const id of ["job-1", "job-3"])
    await expect.poll(async () => (await show(alone, id)).status).toBe("completed");

  expect(open).toBe("awaiting");
  expect((await show(alone, "job-1")).result).toEqual({ length: "planted-4711".length });
  expect((await show(alone, "job-2")).result).toEqual({ length: "planted-4711".length });
  expect((await show(alone, "job-3")).result).toEqual({ length: "stored-0815".length });
  expect([both, alone].flatMap(({ logs }) => logs).join("")).not.toMatch(/planted-4711|stored-0815|BEGIN/);
});

it("parameters of deleted jobs are encrypted again, too: one that is restored later can be read", async () => {
  const first = await serve(former);
  await start(first, "job-1");
  await answer(first, "job-1");
  await expect.poll(async () => (await show(first, "job-1")).status).toBe("completed");
  const deleted = await first.request("/admin/api/jobs/job-1", { method: "DELETE" });
  await first.service.close();

  const both = await serve(present, first.dataDir, former);
  await expect
    .poll(() => both.logs.join(""))
    .toContain("all stored parameters are encrypted for the present");
  await both.service.close();
  const alone = await serve(present, first.dataDir);
  const { items } = await alone.service.get(JOBS).deleted();
  const restored = await alone.request("/admin/api/jobs/job-1/restore", { json: {} });
  const fork = await alone.request("/jobs/job-1/fork", { json: { from: "start", job_id: "job-2" } });
  await expect.poll(async () => (await show(alone, "job-2")).status).toBe("awaiting");
  await answer(alone, "job-2");

  expect([deleted.ok, restored.ok, fork.ok]).toEqual([true, true, true]);
  expect(alone.service.get(PARAMETERS).renew(items[0]!.encrypted_agent_parameters!).of).toBe("present");
  await expect.poll(async () => (await show(alone, "job-2")).status).toBe("completed");
});

it("jobs that are held resume once their key is one of the former ones, of several", async () => {
  const first = await serve(oldest);
  await start(first, "job-1");
  await first.service.close();
  const without = await serve(present, first.dataDir, former);
  await expect.poll(async () => (await show(without, "job-1")).stop_reason).toBe("unreadable_parameters");
  await expect.poll(() => without.logs.join("")).toMatch(/nor with a former one.*envelopes=1/);
  await without.service.close();

  const all = await serve(present, first.dataDir, `${former}\n${oldest}`);
  await expect.poll(async () => (await show(all, "job-1")).stop_reason).toBeNull();
  await answer(all, "job-1");

  await expect.poll(async () => (await show(all, "job-1")).status).toBe("completed");
});

it("what clients encrypt with the former public key is accepted, and encrypted again at the next start", async () => {
  const first = await serve(former);
  const json = JSON.stringify({ TOKEN: "planted-4711" });
  const encrypted = await (await first.request("/utils/encrypt", { json })).json();
  await first.service.close();
  const both = await serve(present, first.dataDir, former);

  const sent = { job_context: { job_id: "job-1" }, job_fields: {}, encrypted_agent_parameters: encrypted };
  const response = await both.request("/agents/payer/jobs", { json: sent });
  await expect.poll(async () => (await show(both, "job-1")).status).toBe("awaiting");
  await both.service.close();
  const again = await serve(present, first.dataDir, former);

  expect(response.status).toBe(202);
  await expect
    .poll(async () => again.service.get(PARAMETERS).renew((await keptEnvelopes(again))[0]!).of)
    .toBe("present");
});

it("tokens of browsers and sessions of people stay valid while their RSA key is a former one", async () => {
  const first = await serve(former);
  await start(first, "job-1");
  const made = await first.request("/jobs/job-1/tokens", { json: {} });
  const { token } = (await made.json()) as { token: string };
  const cookie = await signIn(first);
  await first.service.close();

  const statuses = async (server: TestServer) => {
    const bearer = { authorization: `Bearer ${token}` };
    const job = await server.request("/jobs/job-1", { key: null, headers: bearer });
    const headers = { cookie, accept: "application/json" };
    const sessions = await server.request("/admin/api/sessions", { key: null, headers });
    return [job.status, sessions.status];
  };
  const both = await serve(present, first.dataDir, former);
  const before = await statuses(both);
  await both.service.close();
  const after = await statuses(await serve(present, first.dataDir));

  expect(before).toEqual([200, 200]);
  expect(after).toEqual([401, 401]);
});
