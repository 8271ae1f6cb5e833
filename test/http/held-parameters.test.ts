import { generateKeyPairSync } from "node:crypto";
import { defineAgent } from "agent-control-service";
import { AUDIT, JOBS } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { expect, it, onTestFinished } from "vitest";

const payer = defineAgent({
  name: "Payer",
  version: "1.0.0",
  parameters: [{ name: "TOKEN", is_secret: true }],
  methods: {
    job_start: {
      run: async ({ job, parameters }) => {
        const item = await job.openCase({ id: `${job.id}-case`, name: "Payment" });
        await item.ask({
          ...{ key: "pay", question: "Pay?" },
          fields: [{ name: "approved", field_type: "BooleanField" as const }],
        });
        await item.close({});
        return { length: String(parameters.TOKEN).length };
      },
    },
  },
});

const makeKey = () =>
  generateKeyPairSync("rsa", { modulusLength: 2048 })
    .privateKey.export({ type: "pkcs8", format: "pem" })
    .toString();
const [former, present] = [makeKey(), makeKey()];

async function serve(rsaPrivateKey: string, dataDir?: string): Promise<TestServer> {
  const server = await testServer({
    ...{ agents: [payer], store: undefined, rsaPrivateKey },
    ...(dataDir !== undefined && { dataDir }),
  });
  onTestFinished(() => server[Symbol.asyncDispose]());
  return server;
}
const show = (server: TestServer, id: string) => server.service.get(JOBS).get(id);
const start = async (server: TestServer, id: string) => {
  const text = JSON.stringify({ TOKEN: "planted-4711" });
  const encrypted_agent_parameters = (await (
    await server.request("/utils/encrypt", { json: text })
  ).json()) as string;
  const json = { job_context: { job_id: id }, job_fields: {}, encrypted_agent_parameters };
  expect((await server.request("/agents/payer/jobs", { json })).status).toBe(202);
  await expect.poll(async () => (await show(server, id)).status).toBe("awaiting");
};
const answer = (server: TestServer, id: string) =>
  server.request(`/jobs/${id}/cases/${id}-case/update`, { json: { answer: { approved: true } } });

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
