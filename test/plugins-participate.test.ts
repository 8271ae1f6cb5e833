import { type Service, ServiceError } from "agent-control-service";
import {
  definePlugin,
  JOBS,
  type Participant,
  type Plugin,
  RETENTION,
  RUNNER,
  STORE,
} from "agent-control-service/plugin";
import type { TableSpec } from "agent-control-service/store";
import { createMemoryStore, testServer } from "agent-control-service/testing";
import { describe, expect, it } from "vitest";
import { openJsonStore } from "../src/core/store/json/json-store.ts";
import { project } from "./cli/_svc.ts";
import { agentOf } from "./runs/_agent.ts";
import { jobContext, startJob, until } from "./runs/_jobs.ts";
import { ServiceProcess } from "./runs/_process.ts";

interface Receipt {
  readonly id: string;
  readonly by: string;
}

declare module "agent-control-service/store" {
  interface Tables {
    Receipt: Receipt;
  }
}

const RECEIPTS: TableSpec<Receipt> = {
  name: "Receipt",
  version: 1,
  entity: true,
  index: ({ by }) => ({ by }),
  facets: ["by"],
  sorted: [],
};

const receipts = (participant: Participant): Plugin => ({
  name: "receipts",
  tables: [RECEIPTS],
  setup: ({ participate }) => participate(participant),
});

/** One receipt for each job. */
const oneForEach: Participant = async (change, tx) => {
  if (change.kind === "job:created") {
    await tx.insert("Receipt", { id: change.job.id, by: change.job.job_context.started_by });
  }
  if (change.kind === "job:deleted") await tx.remove("Receipt", change.job.id);
};

const idsOf = async (service: Service) => (await service.get(STORE).table("Receipt").ids()).sort();
const no = (what: string) => new ServiceError("forbidden", what, { status: 423, detail: "Ask the court." });
const by = "somebody";

describe.each([
  ["memory", createMemoryStore],
  ["JSON", openJsonStore],
])("a participant in changes, with the %s store", (_, store) => {
  const serve = (participant: Participant, run: Parameters<typeof agentOf>[0] = () => "done") =>
    testServer({ agents: [agentOf(run)], plugins: [receipts(participant)], store });

  it("writes in the same transaction as the change", async () => {
    await using server = await serve(oneForEach);
    const { service } = server;

    await Promise.all(["a", "b", "c"].map((id) => startJob(service, { id })));
    await until(service, "b");
    await service.get(RUNNER).remove("b", by);

    expect(await idsOf(service)).toEqual(["a", "c"]);
    expect(await service.get(STORE).table("Receipt").get("a")).toEqual({ id: "a", by: "someone" });
  });

  it("is called for changes of the kinds that it names, and of no other", async () => {
    const kinds: string[] = [];
    const told: Participant = (change) => void kinds.push(change.kind);
    const some = definePlugin({
      name: "some",
      setup: ({ participate }) => participate(told, ["job:finished", "job:deleted"]),
    });
    await using server = await testServer({ agents: [agentOf(() => "done")], plugins: [some()], store });
    const { service } = server;

    await startJob(service, { id: "a" });
    await until(service, "a");
    await service.get(RUNNER).remove("a", by);

    expect(kinds).toEqual(["job:finished", "job:deleted"]);
  });

  it("refuses a change, and the caller gets the reason, with the status", async () => {
    await using server = await serve(async (change, tx) => {
      await oneForEach(change, tx);
      if (change.kind === "job:created" && change.job.id === "bad") throw no("This job is under hold");
    });

    const json = { job_context: jobContext("bad"), job_fields: {} };
    const response = await server.request("/agents/worker/jobs", { json });

    expect(response.status).toBe(423);
    expect(await response.json()).toMatchObject({
      error: "This job is under hold",
      detail: "Ask the court.",
      error_type: "forbidden",
    });
    expect(await server.service.get(JOBS).find("bad")).toBeUndefined();
    expect(await idsOf(server.service)).toEqual([]);
  });

  it("that throws unexpectedly undoes the change, and its plugin is named only in the log", async () => {
    await using server = await serve((change) => {
      if (change.kind === "job:created") throw new TypeError("x is undefined");
    });

    const json = { job_context: jobContext("a"), job_fields: {} };
    const response = await server.request("/agents/worker/jobs", { json });

    expect(response.status).toBe(500);
    expect(await response.text()).not.toContain("undefined");
    expect(server.logs.join("")).toContain(
      'Plugin "receipts" failed while it participated in a change: x is undefined',
    );
    expect(await server.service.get(JOBS).find("a")).toBeUndefined();
  });

  it("prevents the removal of jobs, by a person and by retention, without delaying others", async () => {
    const held = ["1", "4"];
    let ahead = 0;
    await using server = await testServer({
      agents: [agentOf(() => "done")],
      plugins: [
        receipts(async (change, tx) => {
          await oneForEach(change, tx);
          if (change.kind === "job:deleted" && held.includes(change.job.id)) throw no("Under legal hold");
        }),
      ],
      store,
      retention: { completed: "1s" },
      clock: () => new Date(Date.now() + ahead),
    });
    const { service } = server;
    for (const id of ["0", "1", "2", "3", "4", "5"]) {
      await startJob(service, { id });
      await until(service, id);
    }

    await expect(service.get(RUNNER).remove("1", by)).rejects.toMatchObject({
      status: 423,
      message: "Under legal hold",
    });
    ahead = 60_000;
    await service.get(RETENTION).run();

    expect((await service.get(JOBS).list()).items.map(({ id }) => id).sort()).toEqual(held);
    expect(await idsOf(service)).toEqual(held);
  });

  it("that refuses a change of a run fails the job, even if its handler catches the error", async () => {
    const done: string[] = [];
    await using server = await serve(
      (change) => {
        if (change.kind === "case:opened") throw no("No cases today");
      },
      async ({ job }) => {
        await job.openCase({ id: "c", name: "C" }).catch(() => done.push("caught"));
        await job.step("after", () => done.push("after"));
      },
    );

    await startJob(server.service, { id: "a" });
    const job = await until(server.service, "a");

    expect(job).toMatchObject({ status: "failed", stop_reason: "error", error: "No cases today" });
    expect(done).toEqual(["caught"]);
  });

  it("that refuses the end of a job makes it end as failed, with the reason", async () => {
    await using server = await serve(
      (change) => {
        if (change.kind === "job:finished" && change.job.status === "completed")
          throw no("Not without a receipt");
      },
      async ({ job }) => {
        const item = await job.openCase({ id: "c", name: "C" });
        await item.step("one", () => 1);
        return "done";
      },
    );

    await startJob(server.service, { id: "a" });
    const job = await until(server.service, "a");

    expect(job).toMatchObject({ status: "failed", error: "Not without a receipt", open_questions: 0 });
    expect(server.service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
  });

  it.each([
    ["a table of the service", "Job"],
    ["a table of a plugin that it does not depend on", "Outbox"],
  ])("cannot write %s", async (_name, table) => {
    await using server = await serve(async (change, tx) => {
      if (change.kind === "job:created") await tx.remove(table as "Receipt", change.job.id);
    });

    await expect(startJob(server.service, { id: "a" })).rejects.toThrow(
      `Plugin "receipts" cannot write "${table}" in the transaction of a change`,
    );
    expect(await server.service.get(JOBS).find("a")).toBeUndefined();
  });

  it("writes tables of plugins that it depends on", async () => {
    const told = definePlugin({
      name: "told",
      dependsOn: ["receipts"],
      setup: ({ participate }) => participate(oneForEach),
    });
    await using server = await testServer({
      agents: [agentOf(() => "done")],
      plugins: [told(), { name: "receipts", tables: [RECEIPTS] }],
      store,
    });

    await startJob(server.service, { id: "a" });

    expect(await idsOf(server.service)).toEqual(["a"]);
  });
});

const CONTROLLER = `
import { createServer, defineAgent } from "agent-control-service";
import { definePlugin, defineRoute, ROUTER, STORE } from "agent-control-service/plugin";

const receipts = definePlugin({
  name: "receipts",
  tables: [{ name: "Receipt", version: 1, entity: true, index: ({ by }) => ({ by }), facets: ["by"], sorted: [] }],
  setup({ participate, get }) {
    participate(async (change, tx) => {
      if (change.kind !== "job:created" && change.kind !== "job:finished") return;
      await tx.insert("Receipt", { id: change.kind + " " + change.job.id, by: change.job.job_context.started_by });
      if (process.env.DIES_IN === change.kind) process.kill(process.pid, "SIGKILL");
      if (process.env.REFUSES === change.kind) throw new Error("refused");
    });
    get(ROUTER).add(defineRoute({
      method: "GET", path: "/receipts", auth: "key", needs: "view", summary: "x", tag: "x", responses: {},
      handler: () => get(STORE).table("Receipt").ids(),
    }));
  },
});
const agent = defineAgent({
  name: "Worker", version: "1.0.0",
  onInterruption: process.env.POLICY,
  methods: { job_start: { run: ({ job }) => job.step("only", () => new Promise((done) => setTimeout(done, Number(process.env.TAKES ?? 0)))) } },
});
export default createServer({ agents: [agent], plugins: [receipts()], port: 0 });
`;

describe("a process that is killed while a participant writes", () => {
  it("leaves the change and the participant's writes, or neither", async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }), {
      DIES_IN: "job:created",
    });
    const receipts = async () => ((await (await service.send("/receipts")).json()) as string[]).sort();

    await service.startJob("worker", "a").catch(() => {});
    await service.ended;
    await service.start({ DIES_IN: "job:finished" });
    expect(await receipts()).toEqual([]);
    expect((await service.send("/jobs/a")).status).toBe(404);

    await service.startJob("worker", "b").catch(() => {});
    await service.ended;
    await service.start();
    await service.until("b", ["completed"]);
    expect(await receipts()).toEqual(["job:created b", "job:finished b"]);

    await service.startJob("worker", "c");
    await service.until("c", ["completed"]);
    await service.kill();
    await service.start();
    expect((await receipts()).filter((id) => id.endsWith(" c"))).toEqual(["job:created c", "job:finished c"]);
    await service.end();
  });

  it("does not prevent the next start if a change of the start is refused", async () => {
    const service = await ServiceProcess.in(await project({ "controller.mjs": CONTROLLER }), {
      TAKES: "60000",
      POLICY: "fail",
    });
    for (const id of ["a", "b"]) {
      await service.startJob("worker", id);
      await service.until(id, ["in_progress"]);
    }
    await service.kill();

    await service.start({ POLICY: "fail", REFUSES: "job:finished" });
    expect((await service.show("a")).status).toBe("in_progress");
    expect(service.output).toContain("a job could not be resumed: a plugin refused the change");
    await service.kill();

    await service.start({ POLICY: "fail" });
    await service.until("a", ["failed"]);
    await service.until("b", ["failed"]);
    await service.end();
  });
});
