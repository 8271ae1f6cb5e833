import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { explainDataFolderError } from "../../src/core/service/data-folder-error.ts";
import { lockFolder } from "../../src/core/store/json/folder-lock.ts";
import { greeter } from "../_setup.ts";
import { jobContext } from "./_jobs.ts";

let root: string;
let dataDir: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "data-folder-"));
  dataDir = join(root, "data");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

describe("a data folder that is removed while the service runs", () => {
  it("refuses jobs, makes health unhealthy, and leaves a second service on the path alone", async () => {
    await using server = await testServer({ agents: [greeter], dataDir, store: undefined });
    const start = (id: string) =>
      server.request("/agents/greeter/jobs", {
        method: "POST",
        json: { job_context: jobContext(id), job_fields: { name: "Ada" } },
      });
    expect((await start("before")).status).toBe(202);
    rmSync(dataDir, { recursive: true });

    const refusal = await start("late");

    expect(refusal.status).toBe(503);
    expect(await refusal.json()).toMatchObject({
      error_type: "storage_error",
      error: expect.stringContaining(`The data folder ${dataDir} is gone or was replaced`),
    });
    expect(await (await server.request("/.well-known/health")).json()).toMatchObject({ status: "unhealthy" });
    await using second = await testServer({ agents: [greeter], dataDir, store: undefined });
    expect(await (await second.request("/jobs")).json()).toEqual([]);
    expect((await start("later")).status).toBe(503);
  });
});

describe("a data folder that this user may not write to", () => {
  it("is reported as such, even if the lock is the first to notice", async () => {
    mkdirSync(dataDir);
    chmodSync(root, 0o755);
    chmodSync(dataDir, 0o555);
    const isRoot = process.geteuid?.() === 0;
    if (isRoot) {
      // The run's own folder: the other user must get as far as the lock.
      chmodSync(process.env.SVC_TEST_RUN!, 0o711);
      process.seteuid!(65534);
    }
    const error: unknown = await lockFolder(dataDir, { info() {}, warn() {}, error() {} }).catch(
      (cause) => cause,
    );
    if (isRoot) process.seteuid!(0);

    expect(error).toMatchObject({ syscall: "listen" });
    expect(explainDataFolderError(error, dataDir)).toMatchObject({
      message: `The data folder ${dataDir} cannot be used (EACCES): let this user write to it, or set another one (option dataDir, SERVICE_DATA_DIR)`,
    });
  });

  it("is reported as read-only if the file system is", () => {
    const error = Object.assign(new Error("listen EROFS"), { code: "EROFS", path: dataDir });

    expect(String(explainDataFolderError(error, dataDir))).toContain("mount it for writing");
  });

  it("is reported as a file if it is one", async () => {
    writeFileSync(dataDir, "");

    await expect(testServer({ agents: [greeter], dataDir, store: undefined })).rejects.toThrow(
      "a file with that name exists",
    );
    await expect(
      testServer({ agents: [greeter], dataDir: join(dataDir, "below"), store: undefined }),
    ).rejects.toThrow("a part of its path is a file");
  });
});
