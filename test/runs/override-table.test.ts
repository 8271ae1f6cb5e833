import { readFileSync } from "node:fs";
import type { EntityStatus, ServerOptions, Service } from "agent-control-service";
import { CASES, JOBS, RUNNER, STORE } from "agent-control-service/plugin";
import { type TestServer, testServer } from "agent-control-service/testing";
import { describe, expect, test } from "vitest";
import { EntityStatusSchema } from "../../src/core/models/entity-status.ts";
import {
  CASE_OVERRIDE_WORDS,
  CASE_OVERRIDES,
  JOB_OVERRIDE_WORDS,
  JOB_OVERRIDES,
} from "../../src/core/models/overrides.ts";
import type { Question } from "../../src/core/models/question.ts";
import { LEDGER } from "../../src/core/service/inner-tokens.ts";
import { agentOf, gate } from "./_agent.ts";
import { jobContext, startJob, until } from "./_jobs.ts";

const STATUSES = EntityStatusSchema.options;
const FIELDS = [{ name: "text", required: true }];
const TERMINAL = ["completed", "failed", "cancelled"];

/** A service with a job in each of the states, and what really happened to it. */
async function world(options: Partial<ServerOptions> = {}) {
  const did: string[] = [];
  const [reached, goOn] = [gate(), gate()];
  let mode: EntityStatus = "completed";
  let asks = false;
  const agent = agentOf(
    async ({ job }) => {
      if (job.id === "blocker") return goOn.opened;
      await job.step("first", () => void did.push("first"));
      const item = await job.openCase({ id: "a", name: "a" });
      if (mode === "failed") throw new Error("failed once");
      if (asks) await item.ask({ question: "Continue?", fields: FIELDS });
      reached.open();
      if (mode !== "completed") await goOn.opened;
      await item.step("second", () => void did.push("second"));
      await item.close();
      return "done";
    },
    { methods: { job_stop: { run: () => void did.push("job_stop") } } },
  );
  const all: ServerOptions = {
    agents: [agent],
    maxConcurrentJobs: 1,
    stopGrace: 30,
    shutdownGrace: 0,
    ...options,
  };
  const server = await testServer(all);

  /** Brings the job into a state. */
  const bring = async (status: EntityStatus): Promise<void> => {
    const { service } = server;
    const runner = service.get(RUNNER);
    mode = status;
    asks = status === "awaiting";
    if (status === "stopped") {
      const context = { job_context: { ...jobContext("blocker"), workspace_id: "another" }, job_fields: {} };
      await service.ready();
      await runner.start("worker", context);
    }
    await startJob(service, { id: "j" });
    if (status === "in_progress" || status === "cancelling" || status === "cancelled") await reached.opened;
    if (status === "cancelling" || status === "cancelled") await runner.stop("j");
    if (status === "cancelled") goOn.open();
    await until(service, "j", [status]);
    mode = "in_progress";
  };
  return { did, goOn, server, options: all, bring };
}

/** Lets the job continue to its end, answering its questions. */
async function finish(service: Service, goOn: { open(): void }): Promise<string> {
  goOn.open();
  for (let left = 12_000; left > 0; left--) {
    const { status } = await service.get(JOBS).get("j");
    const item = await service.get(CASES).find("a");
    if (TERMINAL.includes(status)) return status;
    if (item?.question) {
      const answer = { answer: { text: "yes" }, message: null };
      await service
        .get(RUNNER)
        .answer("j", "a", answer)
        .catch(() => {});
    }
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  return `not ended: ${(await service.get(JOBS).get("j")).status}`;
}

async function setStatus(server: TestServer, status: EntityStatus): Promise<void> {
  const response = await server.request("/admin/api/jobs/j/status", { json: { status } });
  expect(await response.json()).toMatchObject({ id: "j", status });
}

const PAIRS = STATUSES.flatMap((from) => STATUSES.map((to) => [from, to] as const));

describe("a job", () => {
  test.each(PAIRS)("that is %s, and is set to %s", async (from, to) => {
    const { did, goOn, server, bring } = await world();
    await using _ = server;
    const { service } = server;
    await bring(from);
    const before = await service.get(JOBS).get("j");
    const effect = JOB_OVERRIDES[from][to];

    await setStatus(server, to);

    const wasBegun = from !== "stopped";
    if (effect === "ends" || effect === "is corrected") {
      const ended = await service.get(JOBS).get("j");
      expect(ended).toMatchObject({ status: to, open_questions: 0, finished_at: expect.any(String) });
      expect(ended.error === null).toBe(to === "completed");
      if (effect === "ends") expect(ended.stop_reason).toBe("overridden");
      if (effect === "is corrected") expect(ended.finished_at).toBe(before.finished_at);
      // Nothing that the run still does counts.
      expect(await finish(service, goOn)).toBe(to);
      await expect.poll(() => service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
      expect(await service.get(JOBS).get("j")).toMatchObject({ status: to, error: ended.error });
      if (wasBegun) expect(TERMINAL).toContain((await service.get(CASES).get("a")).status);
    } else if (effect === "is stopped") {
      expect(await finish(service, goOn)).toBe("cancelled");
      expect(did.filter((what) => what === "job_stop").length).toBeGreaterThan(0);
    } else if (effect === "is parked" || effect === "is reopened") {
      goOn.open();
      await expect.poll(() => service.get(RUNNER).load()).toEqual({ running: 0, queued: 0 });
      expect(await service.get(JOBS).get("j")).toMatchObject({ status: "stopped", finished_at: null });
      expect(await service.get(RUNNER).position("j")).toBeUndefined();
      expect(did.includes("second")).toBe(from === "completed");
    } else {
      expect(await finish(service, goOn)).toBe("completed");
    }

    // There is no status out of which a job cannot be brought to its end.
    if ((await service.get(JOBS).get("j")).status !== "completed") await setStatus(server, "in_progress");
    expect(await finish(service, goOn)).toBe("completed");
    expect(await service.get(JOBS).get("j")).toMatchObject({ error: null });
    const steps = did.filter((what) => what !== "job_stop");
    // An operator's "completed" skips what had not been done.
    if (to !== "completed" || from === "completed") expect(steps).toEqual(["first", "second"]);
  });

  test.each(STATUSES)(
    "that is %s, and is parked, stays so across a restart until it is set to in_progress",
    async (from) => {
      const first = await world({ store: undefined });
      await using one = first.server;
      await first.bring(from);
      await setStatus(one, "stopped");
      await one.service.close();
      await using two = await testServer({ ...first.options, dataDir: one.dataDir });
      const { service } = two;
      await service.ready();
      first.goOn.open();
      await until(
        service,
        from === "stopped" ? "blocker" : "j",
        from === "stopped" ? ["completed"] : ["stopped"],
      );

      expect(await service.get(RUNNER).position("j")).toBeUndefined();
      expect((await service.get(JOBS).get("j")).status).toBe("stopped");
      await setStatus(two, "in_progress");
      expect(await finish(service, first.goOn)).toBe("completed");
      expect(first.did.filter((what) => what === "first")).toEqual(["first"]);
    },
  );

  test("that is set to failed reports the ends of its cases before its own", async () => {
    const { server, bring } = await world();
    await using _ = server;
    const told: string[] = [];
    server.service.get(LEDGER).join((change) => {
      if (change.kind === "case:changed") told.push(`case ${change.case.status}`);
      if (change.kind === "job:finished") told.push(`job ${change.job.status}`);
    });
    await bring("awaiting");
    told.length = 0;

    await setStatus(server, "failed");

    expect(told).toEqual(["case failed", "job failed"]);
  });
});

describe("a case", () => {
  const question = {
    id: "0",
    question: "Continue?",
    fields: FIELDS,
    deadline: null,
    on_timeout: "fail",
    default: null,
  };

  test.each(PAIRS)("that is %s, and is set to %s", async (from, to) => {
    const { server, bring } = await world();
    await using _ = server;
    const { service } = server;
    await bring("in_progress");
    await service
      .get(STORE)
      .table("Case")
      .change("a", (item) => ({
        ...item,
        status: from,
        finished_at: TERMINAL.includes(from) ? item.updated_at : null,
        question:
          from === "awaiting" ? ({ ...question, asked_at: item.updated_at } as unknown as Question) : null,
      }));
    if (from === "awaiting")
      await service
        .get(STORE)
        .table("Job")
        .change("j", (job) => ({ ...job, open_questions: 1 }));
    const effect = CASE_OVERRIDES[from][to];

    const response = await server.request("/admin/api/cases/a/status", { json: { status: to } });
    const item = await service.get(CASES).get("a");
    const update = () => service.get(RUNNER).answer("j", "a", { answer: { text: "yes" }, message: null });

    expect(await response.json()).toMatchObject({ id: "a", status: to });
    expect(item.status).toBe(to);
    expect(item.finished_at === null).toBe(effect !== "ends" && effect !== "is corrected");
    expect(item.question !== null).toBe(effect === "keeps its question" && from === "awaiting");
    expect((await service.get(JOBS).get("j")).open_questions).toBe(item.question ? 1 : 0);
    if (item.question) await update();
    else await expect(update()).rejects.toMatchObject({ type: "invalid_transition" });
    // The run of its job continues in any case.
    expect((await service.get(JOBS).get("j")).status).toBe("in_progress");
  });

  test.each(["stopped", "in_progress", "awaiting"] as const)(
    "that is marked as %s can be asked about",
    async (status) => {
      const [begun, goOn] = [gate(), gate()];
      const agent = agentOf(async ({ job }) => {
        const item = await job.openCase({ id: "a", name: "a" });
        begun.open();
        await goOn.opened;
        const { text } = await item.ask({ question: "Continue?", fields: FIELDS });
        return text;
      });
      await using server = await testServer({ agents: [agent] });
      const { service } = server;
      await startJob(service, { id: "j" });
      await begun.opened;

      await service.get(RUNNER).overrideCase("a", status, "operator");

      expect(await finish(service, goOn)).toBe("completed");
      expect(await service.get(JOBS).get("j")).toMatchObject({ result: "yes" });
    },
  );
});

describe("the tables of the docs match the code:", () => {
  const page = readFileSync(new URL("../../docs/durability.md", import.meta.url), "utf8");
  /** Rows of the table that follows a heading or a line, cells trimmed. */
  const tableAfter = (line: string) => {
    const rows = page.slice(page.indexOf(line)).split("\n").slice(1);
    const first = rows.findIndex((row) => row.startsWith("|"));
    const last = rows.findIndex((row, at) => at > first && !row.startsWith("|"));
    const cells = rows.slice(first, last).map((row) =>
      row
        .split("|")
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
    return [cells[0]!, ...cells.slice(2)];
  };
  const grid = (table: Readonly<Record<EntityStatus, Readonly<Record<EntityStatus, string>>>>) => [
    ["It is … and is set to", ...STATUSES.map((status) => `\`${status}\``)],
    ...STATUSES.map((from) => [`\`${from}\``, ...STATUSES.map((to) => table[from][to])]),
  ];

  test("jobs", () => {
    expect(tableAfter("What a status does to a job:")).toEqual(grid(JOB_OVERRIDES));
    expect(tableAfter("In words, of a job:").slice(1)).toEqual(Object.entries(JOB_OVERRIDE_WORDS));
  });

  test("cases", () => {
    expect(tableAfter("What a status does to a case:")).toEqual(grid(CASE_OVERRIDES));
    expect(tableAfter("In words, of a case:").slice(1)).toEqual(Object.entries(CASE_OVERRIDE_WORDS));
  });
});
