import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer, type ServerOptions } from "agent-control-service";
import { StorageFailure } from "agent-control-service/storage";
import { type TestServer, testServer } from "agent-control-service/testing";
import { createStorage } from "unstorage";
import memory from "unstorage/drivers/memory";
import { describe, expect, it, onTestFinished } from "vitest";
import { resolveOptions } from "../../src/core/service/options.ts";
import { openStorage } from "../../src/core/storage/open-storage.ts";
import { readGeneration } from "../../src/core/store/backup/generation.ts";
import { findGeneration, listGenerations } from "../../src/core/store/backup/generations.ts";
import { sumsOf } from "../../src/core/store/content.ts";
import { readBackup, saveBackup } from "../../src/core/store/maintenance.ts";
import { greeter } from "../_setup.ts";
import { jobContext } from "../http/_jobs.ts";

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "svc-backup-option-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

const start = (options: Partial<ServerOptions>) =>
  testServer({ agents: [greeter], dataDir: newFolder(), store: undefined, ...options });

const read = async (server: TestServer, path: string) =>
  (await server.request(path)).json() as Promise<Record<string, never>>;

describe("the option backup", () => {
  it("ships the store, which can be restored, and shows when", async () => {
    const storage = createStorage({ driver: memory() });
    await using server = await start({ backup: { storage, every: "1s", keep: "30d" } });
    const job = { job_context: jobContext("j1"), job_fields: { name: "Ada" } };
    await server.request("/agents/greeter/jobs", { method: "POST", json: job });
    const restored = async () => {
      const generation = await findGeneration(storage).catch(() => undefined);
      if (generation === undefined) return undefined;
      const folder = newFolder();
      await saveBackup(readGeneration(storage, generation), folder);
      return readBackup(folder, sumsOf);
    };

    await expect
      .poll(restored, { interval: 500 })
      .toEqual(expect.arrayContaining([expect.objectContaining({ name: "Job", rows: 1 })]));

    expect(await read(server, "/.well-known/health")).toMatchObject({
      status: "healthy",
      backup: { last_at: expect.stringMatching(/^2/), lag: expect.any(Number) },
    });
    expect(await (await server.request("/metrics")).text()).toMatch(/svc_backup_ok 1\n/);
    expect(await read(server, "/admin/api/server")).toMatchObject({
      backup: { last: { bytes: expect.any(Number) }, every: 1, error: null },
    });
    expect(await (await server.request("/admin/server")).text()).toContain("Backup");
  });

  it("leaves a service that cannot reach the storage at work, and shows what is wrong", async () => {
    const broken = createStorage({ driver: memory() });
    broken.getKeys = () =>
      Promise.reject(new StorageFailure("The bucket is full", { reason: "full", detail: "Make room." }));
    await using server = await start({ backup: broken });

    await expect
      .poll(() => read(server, "/admin/api/server"))
      .toMatchObject({ backup: { last: null, lag: null, error: "The bucket is full" } });

    expect(await read(server, "/.well-known/health")).toMatchObject({
      status: "healthy",
      backup: { last_at: null, lag: null },
    });
    expect(await (await server.request("/metrics")).text()).toMatch(/svc_backup_ok 0\n/);
  });

  it("leaves no backup behind that a stop has interrupted", async () => {
    const storage = createStorage({ driver: memory() });
    const put = storage.setItemRaw;
    let reached = () => {};
    const writing = new Promise<void>((resolve) => {
      reached = resolve;
    });
    storage.setItemRaw = async (...args: Parameters<typeof put>) => {
      reached();
      await put(...args);
      throw new Error("the connection was cut");
    };
    const server = await start({ backup: storage });
    await writing;

    await server[Symbol.asyncDispose]();

    expect(await listGenerations(openStorage(storage))).toEqual([]);
  });

  it("is absent from health and metrics of a service without it", async () => {
    await using server = await start({});

    expect(await read(server, "/.well-known/health")).not.toHaveProperty("backup");
    expect(await (await server.request("/metrics")).text()).not.toMatch(/^svc_backup/m);
    expect(await read(server, "/admin/api/server")).toMatchObject({ backup: null });
  });

  it("comes from variables, with times of its own", () => {
    const env = { SERVICE_BACKUP_URL: "gs://agents", SERVICE_BACKUP_EVERY: "15m", SERVICE_BACKUP_KEEP: "7d" };

    expect(resolveOptions({ agents: [greeter] }, env).backup).toEqual({
      ...{ to: "gs://agents", every: 900_000, keep: 604_800_000 },
    });
    expect(resolveOptions({ agents: [greeter] }, {}).backup).toBeUndefined();
  });

  it.each([
    [{ SERVICE_BACKUP_EVERY: "1h" }, "need SERVICE_BACKUP_URL"],
    [
      { SERVICE_BACKUP_URL: "gs://a", SERVICE_BACKUP_EVERY: "1ms" },
      "(SERVICE_BACKUP_EVERY) must be a duration",
    ],
    [{ SERVICE_BACKUP_URL: "gs://a", SERVICE_BACKUP_KEEP: "1h" }, "must be a duration of a day or more"],
  ])("refuses %o", (env, says) => {
    expect(() => resolveOptions({ agents: [greeter] }, env)).toThrow(says);
  });

  it("stops the start of a service whose URL is wrong, or whose store cannot be backed up", async () => {
    const dataDir = newFolder();
    const wrong = { to: "https://bucket", every: 1000, keep: 1000 };
    const open = (options: Partial<ServerOptions>) => testServer({ agents: [greeter], dataDir, ...options });

    await expect(open({ backup: createStorage() })).rejects.toThrow("This store cannot be backed up");
    expect(() => createServer({ agents: [greeter], backup: wrong as never })).toThrow(
      "backup.storage must be",
    );
  });
});
