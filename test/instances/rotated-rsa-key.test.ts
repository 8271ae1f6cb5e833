// @area core
import { generateKeyPairSync } from "node:crypto";
import { expect, it } from "vitest";
import type { Service } from "../../src/core/service/service.ts";
import { AGENTS, AUDIT, JOBS, PARAMETERS } from "../../src/core/service/tokens.ts";
import { sharedRsaKey } from "../../src/testing/rsa-key.ts";
import { borrowSchema, sharedCluster } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { payer } from "../http/_payer.ts";
import { API_KEY, startOnDatabase } from "./_database.ts";

const former = sharedRsaKey();
const present = generateKeyPairSync("rsa", { modulusLength: 2048 })
  .privateKey.export({ type: "pkcs8", format: "pem" })
  .toString();

/** A request to one instance. */
async function post(url: string, path: string, body: unknown): Promise<unknown> {
  const headers = { "x-api-key": API_KEY, "content-type": "application/json" };
  const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return response.json();
}
const startJob = async (url: string, id: string) => {
  const encrypted_agent_parameters = await post(url, "/utils/encrypt", '{"TOKEN":"planted-4711"}');
  const job_context = { job_id: id };
  await post(url, "/agents/payer/jobs", { job_context, job_fields: {}, encrypted_agent_parameters });
};
const show = (service: Service, id: string) => service.get(JOBS).get(id);
const answer = (url: string, id: string) =>
  post(url, `/jobs/${id}/cases/${id}-case/update`, { answer: { approved: true } });

requirement("postgres").describe("instances that get another RSA key one after the other", () => {
  it("lose no job: parameters are encrypted again once the last one that lacks the key is gone", async () => {
    const cluster = await sharedCluster();
    const at = { url: cluster.url, schema: await borrowSchema(cluster) };
    const agents = [payer];
    const old = await startOnDatabase(at, { agents });
    for (const id of ["job-1", "job-2"]) await startJob(old.url, id);
    for (const id of ["job-1", "job-2"])
      await expect.poll(async () => (await show(old.service, id)).status).toBe("awaiting");

    const rotated = { agents, rsaPrivateKey: present, previousRsaPrivateKey: former };
    const [one, other] = [await startOnDatabase(at, rotated), await startOnDatabase(at, rotated)];
    await startJob(one.url, "job-3");
    await answer(one.url, "job-1");
    await expect.poll(async () => (await show(one.service, "job-1")).status).toBe("completed");
    await expect.poll(() => one.logs.join("")).toContain("once all instances have the present RSA key");
    const kept = (await show(one.service, "job-2")).encrypted_agent_parameters!;
    const isReadByOld = old.service.get(PARAMETERS).canOpen(kept, old.service.get(AGENTS).get("payer"));

    await old.service.close();
    const ofKey = async (id: string) =>
      one.service.get(PARAMETERS).renew((await show(one.service, id)).encrypted_agent_parameters!).of;
    for (const id of ["job-1", "job-2", "job-3"]) await expect.poll(() => ofKey(id)).toBe("present");
    for (const id of ["job-2", "job-3"]) await answer(other.url, id);
    for (const id of ["job-2", "job-3"])
      await expect.poll(async () => (await show(other.service, id)).status).toBe("completed");

    expect(isReadByOld).toBe(true);
    const actions = (await one.service.get(AUDIT).list()).items.map(({ action }) => action);
    expect(actions).toContain("rsa_key.renewed");
    await Promise.all([one.service.close(), other.service.close()]);
    // The former key is no longer needed, also for the store to know the service.
    const last = await startOnDatabase(at, { agents, rsaPrivateKey: present });
    expect((await show(last.service, "job-2")).result).toEqual({ length: "planted-4711".length });
  });
});
