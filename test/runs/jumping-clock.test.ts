// @long
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { type JobStartContext, RetryAfterError, type Service } from "agent-control-service";
import { CASES, RUNNER } from "agent-control-service/plugin";
import { testServer } from "agent-control-service/testing";
import { describe, expect, onTestFinished, type TestContext, test } from "vitest";
import { WallTimers } from "../../src/core/base/wall-timers.ts";
import { findFaketime, requirement } from "../_require.ts";
import { project } from "../cli/_svc.ts";
import { agentOf } from "./_agent.ts";
import { jobContext, NO_LIMITS, startJob, until } from "./_jobs.ts";
import { ServiceProcess } from "./_process.ts";

const FIELDS = [{ name: "text" }];

/** Each way to wait, for so many milliseconds. */
function waits(time: number, clock: () => Date): Record<string, (context: JobStartContext) => unknown> {
  const later = () => new Date(clock().getTime() + time);
  const caseOf = ({ job }: JobStartContext) => job.openCase({ id: `case-${job.id}`, name: "A case" });
  const asks = async (context: JobStartContext, deadline: number | Date) => {
    const item = await caseOf(context);
    const form = {
      question: "Which?",
      fields: FIELDS,
      onTimeout: "default",
      default: { text: "none" },
    } as const;
    return item.ask({ ...form, deadline: deadline instanceof Date ? deadline : deadline / 1000 });
  };
  const seconds = time / 1000;
  return {
    sleep: ({ job }) => job.sleep(seconds),
    question: (context) => asks(context, time),
    "question until a time": (context) => asks(context, later()),
    event: ({ job }) => job.waitFor("never", { deadline: seconds }).catch(() => "late"),
    "event until a time": ({ job }) => job.waitFor("never", { deadline: later() }).catch(() => "late"),
    "retry after": ({ job }) =>
      job.step(
        "try",
        ({ attempt }) => {
          if (attempt === 1) throw new RetryAfterError("later", seconds);
        },
        { retries: 1 },
      ),
    backoff: ({ job }) =>
      job.step(
        "try",
        ({ attempt }) => {
          if (attempt === 1) throw new Error("later");
        },
        { retries: 1, backoff: { initial: seconds, max: seconds } },
      ),
    "time limit": ({ signal }) =>
      new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason))),
    reminder: async (context) => {
      const item = await caseOf(context);
      return item.ask({ question: "Which?", fields: FIELDS, remind: seconds });
    },
  };
}

/** A service whose clock can be set, with one job for each way to wait. */
async function waiting(
  time: number,
  suspendAfter: number | false,
  onTestFinished: TestContext["onTestFinished"],
) {
  let offset = 0;
  const clock = () => new Date(Date.now() + offset);
  const all = waits(time, clock);
  const agent = agentOf((context) => all[context.job.id.replaceAll("-", " ")]!(context));
  const startTimer = new WallTimers(clock).start;
  const server = await testServer({ agents: [agent], clock, startTimer, suspendAfter });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const { service } = server;
  const ids = Object.keys(all).map((name) => name.replaceAll(" ", "-"));
  for (const id of ids) {
    const job_instructions = { ...NO_LIMITS, max_duration: id === "time-limit" ? time / 1000 : null };
    await startJob(service, { id, context: { job_instructions } });
  }
  const set = (by: number) => {
    offset += by;
  };
  return { service, ids, set };
}

/** What is left of the waits, once those of them have ended that do. */
async function left(service: Service, ids: readonly string[]): Promise<string[]> {
  const open: string[] = [];
  for (const id of ids) {
    if (id === "reminder") {
      const { updates } = await service.get(CASES).get("case-reminder");
      if (!updates.some(({ name }) => name === "reminder")) open.push(id);
    } else if ((await service.get(RUNNER).ended(id, 1)).finished_at === null) open.push(id);
  }
  return open;
}

// They mostly wait.
describe.concurrent.for([false, 0.2] as const)("with suspendAfter: %s", (suspendAfter) => {
  test.for([
    ["an hour", 3_600_000],
    ["three days", 3 * 24 * 3_600_000],
  ] as const)(
    "every wait of 20 minutes ends when the clock is set forward by %s",
    async ([, jump], { expect, onTestFinished }) => {
      const { service, ids, set } = await waiting(20 * 60_000, suspendAfter, onTestFinished);
      await until(service, "question", ["awaiting"]);
      await expect.poll(() => service.get(CASES).find("case-reminder")).toBeDefined();
      expect(await left(service, ids)).toEqual(ids);

      set(jump);

      await expect.poll(() => left(service, ids)).toEqual([]);
      expect(await until(service, "time-limit")).toMatchObject({ stop_reason: "max_duration" });
    },
  );

  test("every wait of some seconds ends when the clock is set back by an hour", async ({
    expect,
    onTestFinished,
  }) => {
    const { service, ids, set } = await waiting(3000, suspendAfter, onTestFinished);
    await expect.poll(() => service.get(CASES).find("case-reminder")).toBeDefined();

    set(-3_600_000);

    // These are open until the clock shows their time.
    const untilTime = ids.filter((id) => id.endsWith("-until-a-time"));
    await expect.poll(() => left(service, ids)).toEqual(untilTime);
  });
});

const CONTROLLER = `
import { appendFileSync } from "node:fs";
import { createServer, defineAgent, RetryAfterError } from "agent-control-service";

const form = { question: "Which?", fields: [{ name: "text" }] };
const opened = ({ job }) => job.openCase({ id: job.id + "-case", name: "A case" });
const waits = {
  sleep: ({ job }, time) => job.sleep(time),
  question: async (context, deadline) =>
    (await opened(context)).ask({ ...form, deadline, onTimeout: "default", default: { text: "none" } }),
  event: ({ job }, deadline) => job.waitFor("never", { deadline }).catch(() => "late"),
  retry: ({ job }, time) =>
    job.step("try", ({ attempt }) => {
      if (attempt === 1) throw new RetryAfterError("later", time);
    }, { retries: 1 }),
  limit: ({ signal }) => new Promise((_, fail) => signal.addEventListener("abort", () => fail(signal.reason))),
  reminder: async (context, remind) => (await opened(context)).ask({ ...form, remind }),
};
const agents = [false, "1s"].map((suspendAfter) => defineAgent({
  name: suspendAfter ? "Suspended" : "Kept", version: "1.0.0", suspendAfter,
  methods: { job_start: {
    fields: [{ name: "how" }, { name: "time" }],
    run: (context) => waits[context.fields.how](context, context.fields.time),
  } },
}));
const planned = defineAgent({ name: "Planned", version: "1.0.0", methods: { job_start: {
  fields: [], run: () => appendFileSync("did.log", "planned\\n"),
} } });
export default createServer({
  agents: [...agents, planned],
  schedules: [{ agent: planned, cron: "0 * * * *" }],
  logLevel: "warn",
});
`;
const WAYS = ["sleep", "question", "event", "retry", "limit", "reminder"];

/** A service in a process whose clock can be set, while its monotonic clock is that of the machine. */
async function serviceWithClock() {
  const folder = await project({ "controller.mjs": CONTROLLER, offset: "+0" });
  const service = await ServiceProcess.in(folder, {
    LD_PRELOAD: findFaketime()!,
    FAKETIME_TIMESTAMP_FILE: join(folder, "offset"),
    FAKETIME_NO_CACHE: "1",
    FAKETIME_DONT_FAKE_MONOTONIC: "1",
    SERVICE_BACKUP_URL: pathToFileURL(join(folder, "backup")).href,
    SERVICE_BACKUP_EVERY: "20m",
  });
  onTestFinished(() => service.kill());
  return {
    service,
    set: (seconds: number) => writeFile(join(folder, "offset"), seconds < 0 ? `${seconds}` : `+${seconds}`),
    backups: async () =>
      (await readdir(join(folder, "backup"), { recursive: true })).filter((name) => name.endsWith(".json")),
  };
}

/** Starts a job for each way to wait, and resolves once all of them wait. */
async function startAll(service: ServiceProcess, name: string, time: string): Promise<string[]> {
  const ids: string[] = [];
  for (const agent of ["kept", "suspended"]) {
    for (const how of WAYS) {
      const id = `${name}-${agent}-${how}`;
      const job_instructions = {
        ...NO_LIMITS,
        max_duration: how === "limit" ? Number.parseInt(time, 10) : null,
      };
      const job_context = jobContext(id, { job_instructions });
      const response = await service.send(`/agents/${agent}/jobs`, {
        job_context,
        job_fields: { how, time },
      });
      expect(response.status).toBe(202);
      ids.push(id);
    }
  }
  return ids;
}

/** Those that still wait. */
async function waitingOf(service: ServiceProcess, ids: readonly string[]): Promise<string[]> {
  const open: string[] = [];
  for (const id of ids) {
    if (!id.endsWith("reminder")) {
      const { status } = await service.show(id);
      if (["in_progress", "awaiting", "stopped"].includes(status)) open.push(id);
    } else {
      const response = await service.send(`/jobs/${id}/cases`);
      if (!(await response.text()).includes('"reminder"')) open.push(id);
    }
  }
  return open;
}

requirement("faketime", "linux").it(
  "every wait of a service ends soon after its clock is set, or its process was stopped",
  async () => {
    const { service, set, backups } = await serviceWithClock();
    const ends = (ids: readonly string[]) =>
      expect.poll(() => waitingOf(service, ids), { timeout: 60_000 }).toEqual([]);

    const back = await startAll(service, "back", "5s");
    await set(-3600);
    await ends(back);

    const stopped = await startAll(service, "stopped", "3s");
    service.signal("SIGSTOP");
    await new Promise((resolve) => setTimeout(resolve, 4000));
    service.signal("SIGCONT");
    await ends(stopped);

    const hour = await startAll(service, "hour", "1200s");
    expect(await waitingOf(service, hour)).toEqual(hour);
    await set(0);
    await ends(hour);

    const days = await startAll(service, "days", "1200s");
    const [before, planned] = [(await backups()).length, (await service.did()).length];
    expect(await waitingOf(service, days)).toEqual(days);
    await set(3 * 24 * 3600);
    await ends(days);
    await expect.poll(async () => (await service.did()).length, { timeout: 60_000 }).toBeGreaterThan(planned);
    await expect.poll(async () => (await backups()).length, { timeout: 60_000 }).toBeGreaterThan(before);
  },
);
