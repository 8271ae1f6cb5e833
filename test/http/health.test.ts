import { ServiceError } from "agent-control-service";
import type { StoreFactory, StoreHealth } from "agent-control-service/store";
import { expect, it } from "vitest";
import { VERSION } from "../../src/core/http/service-state.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import { describeServer, greeter } from "../_setup.ts";
import { clerk } from "./_clerk.ts";
import { startBody, startJob, waitFor } from "./_client.ts";

const agents = [clerk, greeter];

/** A store whose disk can be filled up. */
function fillable() {
  let health: StoreHealth = { writable: true };
  const open: StoreFactory = async (context) => {
    const store = await createMemoryStore(context);
    return {
      ...store,
      table: store.table.bind(store),
      log: store.log.bind(store),
      stats: store.stats.bind(store),
      close: store.close.bind(store),
      health: () => health,
      transaction: (work) => {
        if (!health.writable)
          throw new ServiceError("storage_error", "The disk is full", { detail: "Make room." });
        return store.transaction(work);
      },
    };
  };
  return {
    open,
    fill: () => {
      health = { writable: false, error: "ENOSPC in /var/lib/secret-folder" };
    },
    free: () => {
      health = { writable: true };
    },
  };
}

describeServer("health", ({ start }) => {
  it("is public", async () => {
    await using server = await start({ agents });

    const response = await server.request("/.well-known/health", { key: null });

    expect(response.status).toBe(200);
    expect(await response.json()).toEqual({
      status: "healthy",
      timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      version: VERSION,
      uptime: expect.any(Number),
    });
  });

  it("is 503 while the store cannot write; writes are refused and reads continue", async () => {
    const disk = fillable();
    await using server = await start({ agents, store: disk.open });
    await startJob(server, "job-1");
    await waitFor(server, "job-1", "completed");

    disk.fill();
    const sick = await server.request("/.well-known/health", { key: null });
    const write = await server.request("/agents/clerk/jobs", { json: startBody("job-2") });
    const read = await server.request("/jobs/job-1");
    disk.free();
    const well = await server.request("/.well-known/health", { key: null });

    expect(sick.status).toBe(503);
    const text = await sick.text();
    expect(JSON.parse(text)).toMatchObject({ status: "unhealthy", detail: "The store cannot write" });
    expect(text).not.toContain("secret-folder");
    expect(write.status).toBe(503);
    expect(await write.json()).toMatchObject({ error_type: "storage_error", detail: "Make room." });
    expect([read.status, well.status]).toEqual([200, 200]);
    expect((await server.request("/jobs/job-2")).status).toBe(404);
  });

  it("of the agents requires the key and counts their jobs", async () => {
    await using server = await start({ agents });
    await startJob(server, "job-1");
    await waitFor(server, "job-1", "completed");
    for (const id of ["job-2", "job-3"]) {
      await startJob(server, id, { mode: "fail" });
      await waitFor(server, id, "failed");
    }

    const noKey = await server.request("/agents/health", { key: null });
    const degraded = await (await server.request("/agents/health")).json();
    await startJob(server, "job-4", { mode: "wait" });
    await waitFor(server, "job-4", "in_progress");
    const busy = (await (await server.request("/agents/health")).json()) as {
      agents: Record<string, { slug: string; status: string }>;
    };

    expect(noKey.status).toBe(401);
    expect(Object.values((degraded as typeof busy).agents)).toEqual([
      {
        agent_id: expect.any(String),
        name: "Clerk",
        slug: "clerk",
        status: "degraded",
        version: "1.2.3",
        paused: false,
        statistics: {
          total_jobs: 3,
          completed_jobs: 1,
          failed_jobs: 2,
          in_progress_jobs: 0,
          success_rate: 33.3,
        },
      },
      expect.objectContaining({
        slug: "greeter",
        status: "available",
        statistics: {
          total_jobs: 0,
          completed_jobs: 0,
          failed_jobs: 0,
          in_progress_jobs: 0,
          success_rate: 0,
        },
      }),
    ]);
    expect(degraded).toMatchObject({ status: "degraded", timestamp: expect.any(String) });
    expect(Object.values(busy.agents).find(({ slug }) => slug === "clerk")?.status).toBe("busy");
  });
});
