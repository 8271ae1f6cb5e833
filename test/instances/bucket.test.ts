// @area core
import { generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "agent-control-service";
import { describe, expect, it, onTestFinished } from "vitest";
import { serveWithNode } from "../../src/core/http/serve.ts";
import { agentOf } from "../runs/_agent.ts";
import { slotDriver } from "../store/slot-driver.ts";

const apiKey = "a-key-for-the-tests-of-buckets";
const rsaPrivateKey = generateKeyPairSync("rsa", {
  modulusLength: 2048,
  publicKeyEncoding: { type: "spki", format: "pem" },
  privateKeyEncoding: { type: "pkcs8", format: "pem" },
}).privateKey;

/** Asks, and needs what a step before has returned. */
const worker = agentOf(async ({ job }) => {
  const before = await job.step("before", () => "kept");
  const item = await job.openCase({ id: "a", name: "a" });
  const { text } = await item.ask({ question: "Continue?", fields: [{ name: "text", required: true }] });
  await item.close({});
  return { message: `${before} ${text}` };
});

type Options = Parameters<typeof createServer>[0];

/** An instance on a blank disk. */
function instance(data: Map<string, Uint8Array>, options: Partial<Options> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), "bucket-service-"));
  const service = createServer({
    ...{ agents: [worker], storage: slotDriver(data), dataDir, apiKey, rsaPrivateKey },
    ...{ port: 0, logTo: () => {}, admin: false, ...options },
  });
  let url = "";
  onTestFinished(async () => {
    await service.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    service,
    /** Resolves once it answers; `active` once it has the store. */
    async listen(): Promise<{ active: Promise<unknown> }> {
      let active: Promise<unknown> = Promise.resolve();
      await new Promise<void>((resolve, reject) => {
        active = service.listen({
          serve: async (app, at) => {
            const server = await serveWithNode(app, at);
            url = `http://127.0.0.1:${server.port}`;
            resolve();
            return server;
          },
        });
        active.catch(reject);
      });
      return { active };
    },
    call: (path: string, json?: unknown) =>
      fetch(`${url}${path}`, {
        headers: { "x-api-key": apiKey, "content-type": "application/json" },
        ...(json === undefined ? {} : { method: "POST", body: JSON.stringify(json) }),
      }),
  };
}

type Instance = ReturnType<typeof instance>;

async function startJob(one: Instance): Promise<string> {
  const answer = await one.call("/agents/worker/jobs", { job_fields: {} });
  expect(answer.status).toBeLessThan(300);
  const { id } = (await answer.json()) as { id: string };
  await expect.poll(() => statusOf(one, id)).toBe("awaiting");
  return id;
}

async function statusOf(one: Instance, id: string): Promise<unknown> {
  return ((await (await one.call(`/jobs/${id}`)).json()) as { status: unknown }).status;
}

describe("a service whose store is in a bucket", () => {
  it("continues on a blank disk: a question of before is answered, and the job completes", async () => {
    const data = new Map<string, Uint8Array>();
    const first = instance(data);
    await (await first.listen()).active;
    const id = await startJob(first);
    await first.service.close();
    const second = instance(data);
    await (await second.listen()).active;
    await expect.poll(() => statusOf(second, id)).toBe("awaiting");
    await second.call(`/jobs/${id}/cases/a/update`, { answer: { text: "yes" } });
    await expect.poll(() => statusOf(second, id)).toBe("completed");
    const job = (await (await second.call(`/jobs/${id}`)).json()) as { result: unknown };
    expect(JSON.stringify(job)).toContain("kept yes");
  });

  it("waits beside a living one, healthy, and takes over when a request reaches it; the other one stores nothing more", async () => {
    const data = new Map<string, Uint8Array>();
    const old = instance(data);
    await (await old.listen()).active;
    const id = await startJob(old);
    const next = instance(data);
    const { active } = await next.listen();
    const health = await next.call("/.well-known/health");
    expect(health.status).toBe(200);
    expect(await health.json()).toMatchObject({
      status: "healthy",
      detail: expect.stringContaining("Standby"),
    });
    expect((await old.call("/agents/worker/jobs", { job_fields: {} })).status).toBeLessThan(300);

    const refused = await next.call("/agents/worker/jobs", { job_fields: {} });
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    // A read waits for the take-over.
    expect(await statusOf(next, id)).toBe("awaiting");
    await active;
    expect((await old.call("/agents/worker/jobs", { job_fields: {} })).status).toBe(503);
    expect((await old.call("/.well-known/health")).status).toBe(503);
    expect((await next.call("/agents/worker/jobs", { job_fields: {} })).status).toBeLessThan(300);
  });

  it("takes over without a request when the other one releases the store", async () => {
    const data = new Map<string, Uint8Array>();
    const old = instance(data);
    await (await old.listen()).active;
    const next = instance(data);
    const { active } = await next.listen();
    await old.service.close();
    await active;
    expect((await next.call("/agents/worker/jobs", { job_fields: {} })).status).toBeLessThan(300);
  });

  it("is refused without keys that outlive the disk, before the other one loses the store", async () => {
    const data = new Map<string, Uint8Array>();
    const old = instance(data);
    await (await old.listen()).active;
    const next = instance(data, { rsaPrivateKey: undefined });
    await expect(next.service.ready()).rejects.toThrow("SERVICE_RSA_PRIVATE_KEY");
    await startJob(old);
  });

  it("with durability on disk shows how far the bucket is behind, and what a restore may lack", async () => {
    const data = new Map<string, Uint8Array>();
    const first = instance(data, { durability: "disk", admin: true });
    await (await first.listen()).active;
    const id = await startJob(first);
    const health = async (one: Instance) =>
      (await (await one.call("/.well-known/health")).json()) as { status: string; storage: object };
    await expect
      .poll(async () => (await health(first)).storage)
      .toMatchObject({ groups: 0, bytes: 0, lag: 0 });
    expect(await (await first.call("/metrics")).text()).toMatch(/svc_storage_lag_seconds 0\n/);
    expect(await (await first.call("/admin/api/server")).json()).toMatchObject({
      store: {
        health: { shipping: { last_at: expect.stringMatching(/^2\d+-/), restored: null, set_aside: [] } },
      },
    });
    expect(await (await first.call("/admin/server")).text()).toContain("On this disk only");

    const attention = async () => {
      const { attention } = (await (await first.call("/admin/api/dashboard")).json()) as {
        attention: { kind: string; severity: string; text: string }[];
      };
      return attention
        .filter(({ kind }) => kind === "store")
        .map(({ severity, text }) => `${severity}: ${text}`);
    };
    expect(await attention()).toEqual([]);
    data.set = () => {
      throw new Error("no route to host");
    };
    await startJob(first);
    await expect
      .poll(attention, { timeout: 20_000 })
      .toEqual([expect.stringMatching(/^bad: New writes are on this disk only: .*no route to host/)]);
    const dashboard = await (await first.call("/admin/")).text();
    expect(dashboard).not.toContain("The service is well");
    expect(dashboard).toMatch(/Store<\/h\d><span class="st st-degraded">/);
    expect(dashboard).toMatch(/<dt>Storage<\/dt><dd class="warn">[^<]*no route to host/);
    data.set = Map.prototype.set;
    await expect.poll(attention, { timeout: 60_000 }).toEqual([]);

    // The first one has not stopped: the second one cannot know whether everything was shipped.
    const second = instance(data, { durability: "disk" });
    const { active } = await second.listen();
    expect(await statusOf(second, id)).toBe("awaiting");
    await active;
    expect(await health(second)).toMatchObject({
      status: "healthy",
      storage: { restored: { as_of: expect.stringMatching(/^2\d+-/), may_lack: true }, set_aside: 0 },
    });
  });

  it("is refused with a durability that is not known, or needs a bucket", () => {
    const of = (options: object) => () => instance(new Map(), options);
    expect(of({ durability: "memory" })).toThrow("SERVICE_DURABILITY");
    expect(of({ durability: "disk", storage: undefined })).toThrow("needs the option storage");
  });

  it("is refused beside another store", () => {
    expect(() => instance(new Map(), { store: async () => Promise.reject(new Error("unused")) })).toThrow(
      "There are two stores",
    );
  });
});
