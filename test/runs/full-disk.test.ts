// @alone
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CASES, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, expect } from "vitest";
import { requirement } from "../_require.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext, startJob, until } from "./_jobs.ts";

const small = requirement("tmpfs");
const SIZE = 24 * 1024 * 1024;
const BIG = "x".repeat(100_000);

small.describe("a disk that is full while jobs run", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "runs-full-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${SIZE}`, "tmpfs", folder]);
  });
  afterEach(() => {
    execFileSync("umount", ["-l", folder]);
    rmSync(folder, { recursive: true });
  });

  /** Takes all the room that is left; the result gives it back. */
  function fill(): () => void {
    const files: string[] = [];
    for (let bytes = 1024 * 1024; bytes >= 1024; ) {
      const file = join(folder, `filler-${files.length}`);
      files.push(file);
      try {
        writeFileSync(file, Buffer.alloc(bytes));
      } catch {
        bytes = Math.floor(bytes / 2);
      }
    }
    return () => {
      for (const file of files) rmSync(file, { force: true });
    };
  }

  small.it("pauses them, says so, and lets them continue to a correct end once there is space", async () => {
    const did: string[] = [];
    const [half, goOn] = [gate(), gate()];
    const agent = agentOf(
      async ({ job, fields: { n } }) => {
        if (n === 2) return job.step("queued", () => void did.push(`queued ${job.id}`));
        const item = await job.openCase({ id: "a", name: "a" });
        for (let step = 1; step <= 30; step++) {
          if (step === 6) {
            half.open();
            await goOn.opened;
          }
          await job.step(`step ${step}`, () => {
            did.push(`step ${step}`);
            return { text: step > 5 ? BIG : "" };
          });
          if (step % 5 === 0) await item.update({ name: `after ${step}` });
        }
        await item.close({ did: did.length });
        return { steps: 30 };
      },
      { maxConcurrentJobs: 1 },
    );
    await using server = await testServer({
      agents: [agent],
      store: undefined,
      dataDir: join(folder, "data"),
    });
    const { service } = server;
    await startJob(service, { id: "long" });
    await half.opened;
    await startJob(service, { id: "waits", fields: { n: 2 } });

    const free = fill();
    goOn.open();
    await expect.poll(async () => (await server.request("/.well-known/health")).status).toBe(503);
    const health = (await (await server.request("/.well-known/health")).json()) as { status: string };
    const refused = await server.request("/agents/worker/jobs", {
      json: { job_context: jobContext("refused"), job_fields: {} },
    });
    const error = (await refused.json()) as { error_type: string; detail: string };
    const stopped = await service
      .get(RUNNER)
      .stop("waits")
      .catch((error: unknown) => error);
    const before = did.length;
    await new Promise((resolve) => setTimeout(resolve, 300));
    const while_full = await server.request("/jobs/long").then((response) => response.json());
    const held = did.length;

    free();
    const job = await until(service, "long");
    const waits = await until(service, "waits");
    const item = await service.get(CASES).get("a");

    expect(health.status).toBe("unhealthy");
    expect(refused.status).toBe(503);
    expect(error).toMatchObject({
      error_type: "storage_error",
      detail: expect.stringContaining("Free space"),
    });
    expect(stopped).toMatchObject({ type: "storage_error" });
    expect(while_full).toMatchObject({ status: "in_progress" });
    expect(held).toBe(before);
    expect(job).toMatchObject({ status: "completed", result: { steps: 30 } });
    expect(waits.status).toBe("completed");
    const steps = Array.from({ length: 30 }, (_, at) => `step ${at + 1}`);
    expect(did).toEqual([...steps, "queued waits"]);
    expect(item.updates.map(({ index }) => index)).toEqual(item.updates.map((_, at) => at + 1));
    expect((await server.request("/.well-known/health")).status).toBe(200);
  });

  small.it("lets a service with unfinished jobs start, which continue once there is space", async () => {
    const did: string[] = [];
    const [begun, never] = [gate(), gate()];
    const first = agentOf(async ({ job }) => {
      await job.step("first", () => void did.push("first"));
      begun.open();
      await never.opened;
    });
    const agent = agentOf(async ({ job }) => {
      await job.step("first", () => void did.push("first"));
      await job.step("second", () => void did.push("second"));
      return "done";
    });
    const dataDir = join(folder, "data");
    {
      await using server = await testServer({
        agents: [first],
        store: undefined,
        dataDir,
        shutdownGrace: 0,
      });
      await startJob(server.service, { id: "job-1" });
      await begun.opened;
    }
    const free = fill();

    await using server = await testServer({ agents: [agent], store: undefined, dataDir });
    const health = await server.request("/.well-known/health");
    free();

    expect([200, 503]).toContain(health.status);
    expect(await until(server.service, "job-1")).toMatchObject({ status: "completed", result: "done" });
    expect(did).toEqual(["first", "second"]);
  });
});
