import { AUDIT } from "agent-control-service/plugin";
import { expect, it } from "vitest";
import { answer, makeKey, serve, show, start } from "./_payer.ts";

const [former, present] = [makeKey(), makeKey()];

it("jobs whose parameters cannot be read are held, and resume with the key that they were encrypted for", async () => {
  const first = await serve(former);
  await start(first, "job-1");
  await start(first, "job-2");
  await first.service.close();
  const { dataDir } = first;

  const other = await serve(present, dataDir);
  for (const id of ["job-1", "job-2"])
    await expect.poll(async () => (await show(other, id)).stop_reason).toBe("unreadable_parameters");
  const held = await show(other, "job-1");
  await expect
    .poll(async () => (await other.service.get(AUDIT).list()).items.map(({ action }) => action))
    .toContain("rsa_key.changed");
  await expect.poll(() => other.logs.join("")).toMatch(/parameters of open jobs cannot be read.*jobs=2/);
  const list = (await (await other.request("/jobs?stop_reason=unreadable_parameters")).json()) as object[];
  await answer(other, "job-1");
  const retried = await other.request("/jobs/job-2/retry", { json: {} });
  await expect.poll(async () => (await show(other, "job-2")).stop_reason).toBe("unreadable_parameters");
  const page = await (await other.request("/admin/api/jobs/job-2")).text();
  await other.service.close();

  const right = await serve(former, dataDir);
  await expect.poll(async () => (await show(right, "job-1")).status).toBe("completed");
  await expect.poll(async () => (await show(right, "job-2")).stop_reason).toBeNull();
  await answer(right, "job-2");
  await expect.poll(async () => (await show(right, "job-2")).status).toBe("completed");

  expect(held).toMatchObject({ status: "awaiting" });
  expect(held.error).toContain("cannot be read with the present RSA key");
  expect(list).toHaveLength(2);
  expect(retried.status).toBe(202);
  expect(page).toContain("unreadable_parameters");
  expect((await show(right, "job-2")).result).toEqual({ length: "planted-4711".length });
  expect([other, right].flatMap(({ logs }) => logs).join("")).not.toContain("planted-4711");
});

it("a held job can be stopped", async () => {
  const first = await serve(former);
  await start(first, "job-1");
  await first.service.close();
  const other = await serve(present, first.dataDir);
  await expect.poll(async () => (await show(other, "job-1")).stop_reason).toBe("unreadable_parameters");

  await other.request("/agents/payer/stop", { json: { job_context: { job_id: "job-1" } } });

  await expect.poll(async () => (await show(other, "job-1")).status).toBe("cancelled");
});

it("parameters that are stored for an agent say what is wrong with them, at a start and in a held job", async () => {
  const first = await serve(former);
  const text = JSON.stringify({ TOKEN: "planted-4711" });
  const encrypted = (await (await first.request("/utils/encrypt", { json: text })).json()) as string;
  await first.request("/agents/payer/parameters", { json: { parameters_encrypted: encrypted } });
  const json = { job_context: { job_id: "job-1" }, job_fields: {} };
  await first.request("/agents/payer/jobs", { json });
  await expect.poll(async () => (await show(first, "job-1")).status).toBe("awaiting");
  await first.service.close();

  const other = await serve(present, first.dataDir);
  await expect.poll(async () => (await show(other, "job-1")).stop_reason).toBe("unreadable_parameters");
  const refused = await other.request("/agents/payer/jobs", { json: { job_fields: {} } });

  expect((await show(other, "job-1")).error).toContain('stored for agent "payer"');
  expect(refused.status).toBe(422);
  expect(await refused.text()).toContain("store them again");
});
