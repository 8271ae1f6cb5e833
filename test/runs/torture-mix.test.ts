// @losses
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestServer, testServer } from "agent-control-service/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ServiceClient } from "../../src/cli/job/service-client.ts";
import { readOutcome } from "../../src/cli/torture/outcome.ts";
import { checkAcknowledged, checkRecord, type Findings } from "../../src/cli/torture/trial.ts";
import { readServerEvents } from "../../src/client/server-events.ts";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import { CLOCK } from "../../src/core/service/tokens.ts";
import { JOURNAL_FILE, mixOf } from "./torture/mix/agents.ts";
import { isBeginning, whyNotHeld } from "./torture/mix/check-plan.ts";
import { Mix } from "./torture/mix/mix.ts";
import type { MixJob } from "./torture/mix/mix-job.ts";
import { planOf } from "./torture/mix/plans.ts";

/*
 * One service runs the mix to its end. Each test then checks it through answers that are changed on their way, as if the
 * service had lost, doubled or swapped something.
 */

const DEPLOY = 2;
let folder: string;
let server: TestServer;
let mix: Mix;
let jobs: MixJob[];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-mix-"));
  mix = new Mix({ folder, jobs: 1 });
  for (let n = 0; n < DEPLOY; n++) mix.deploy();
  await mix.beforeStart("service");
  const now = () => server.service.get(CLOCK)().getTime();
  server = await testServer({ ...mixOf({ deploy: DEPLOY, folder, now }), admin: false });
  const client = clientOf();
  await mix.prepare(client);
  // Families of the first round are stopped, those of the second are not.
  jobs = [...mix.jobsOf(1, () => 0.1), ...mix.jobsOf(2, () => 0.9)];
  for (const job of jobs) {
    await client.post(`/agents/${job.scenario.slug}/jobs`, job.body);
    job.isAcknowledged = true;
    const now = { round: 2, isOver: { value: false }, random: () => 0 };
    if (job.stopFrom !== undefined) await mix.disturb(client, { jobs: [job], ...now });
  }
  await server.advance("6s");
  await mix.pause(client);
  const findings = none();
  expect(await mix.endAll(client, jobs, findings)).toBe(true);
  expect(findings).toEqual(none());
}, 60_000);

afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

type Change = (path: string, value: never) => unknown;

/** Answers of the service, which is at rest, by path. */
const answers = new Map<string, { readonly text: string; readonly type: string }>();

/** A client of the service; `change` gets each parsed answer, a stream as its events. */
function clientOf(change?: Change): ServiceClient {
  const send: typeof fetch = async (input, init) => {
    if (!change) return fetch(input, init);
    const path = String(input).slice(server.url.length);
    const { text, type } = answers.get(path) ?? (await read(path, init));
    answers.set(path, { text, type });
    if (!type.startsWith("text/event-stream")) return Response.json(change(path, JSON.parse(text) as never));
    const events: StreamEvent[] = [];
    for await (const { event, id, data } of readServerEvents(new Response(text).body!))
      events.push({ event: event!, id, data: JSON.parse(data) as never });
    const lines = (change(path, events as never) as StreamEvent[]).map(
      ({ event, id, data }) =>
        `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`,
    );
    return new Response(lines.join(""), { headers: { "content-type": type } });
  };
  return new ServiceClient({ url: server.url, key: server.key, fetch: send });
}

async function read(path: string, init: RequestInit | undefined) {
  const response = await fetch(server.url + path, init);
  if (!response.ok) throw new Error(`${path}: ${await response.text()}`);
  return { text: await response.text(), type: response.headers.get("content-type") ?? "" };
}

function none(): Findings {
  return { lost: [], doubled: [], swapped: [], wrong: [], expired: [] };
}

async function check(change: Change = (_, value) => value): Promise<Findings> {
  const client = clientOf(change);
  const findings = none();
  for (const job of jobs) {
    const outcome = await readOutcome(client, job.id);
    checkAcknowledged(job, outcome, findings);
    checkRecord(job.label, outcome, findings);
    mix.check(job, outcome, findings);
  }
  await mix.checkRest(client, findings);
  return findings;
}

type StreamEvent = { event: string; id: string | undefined; data: RunEntry & Record<string, never> };
type Call = Extract<RunEntry, { type: "call" }>;

/** Changes the log of a job. */
const inLog =
  (id: string | RegExp, change: (events: StreamEvent[]) => StreamEvent[]): Change =>
  (path, value) =>
    new RegExp(`^/jobs/${typeof id === "string" ? id : id.source}/stream`).test(path)
      ? change(value as StreamEvent[])
      : value;

/** Changes the result of a job. */
const inResult = (id: string, change: (result: never) => void): Change =>
  inLog(id, (events) => {
    for (const { event, data } of events)
      if (event === "snapshot") change((data as unknown as { result: never }).result);
    return events;
  });

const isCall =
  (call: Call["call"]) =>
  ({ data }: StreamEvent): boolean =>
    data.type === "call" && (data as unknown as Call).call === call;

const inList =
  (list: RegExp, change: (items: never[]) => unknown): Change =>
  (path, value) =>
    list.test(path) ? change(value as never[]) : value;

const without =
  (match: (item: { job_id: string }) => boolean) =>
  (items: never[]): unknown => {
    const at = items.findIndex((one) => match(one));
    if (at < 0) throw new Error("nothing to remove");
    return items.toSpliced(at, 1);
  };

describe("the checks of the torture test", () => {
  test("find nothing in a service that works", async () => {
    expect(await check()).toEqual(none());
    expect(jobs.filter((job) => job.mustBeCancelled).length).toBeGreaterThan(0);
  });

  const isChild = ({ job_id }: { job_id: string }) => /^[0-9a-f]{8}-/.test(job_id);
  const MUTANTS: [what: string, kind: keyof Findings, message: RegExp, change: () => Change][] = [
    [
      "a child that does not exist",
      "lost",
      /child \S+ \(\S+\) does not exist/,
      () => inList(/^\/jobs\?/, without(isChild)),
    ],
    [
      "a child that no call has started",
      "doubled",
      /no recorded call of its parent \S+ has started it/,
      () => inLog("r2-family-1", (events) => events.toSpliced(events.findIndex(isCall("start")), 1)),
    ],
    [
      "a parent that is recorded with the end of another child",
      "swapped",
      /has got from child/,
      () =>
        inLog("r2-family-1", (events) => {
          const [one, other] = events.filter(
            (event) => isCall("child")(event) && !(event.data as unknown as Call).error,
          );
          [one!.data.result, other!.data.result] = [other!.data.result!, one!.data.result!];
          return events;
        }),
    ],
    [
      "a parent whose children are swapped",
      "swapped",
      /got the result of r2-family-1\.1 for that of r2-family-1\.0/,
      () => inResult("r2-family-1", ({ children }: { children: unknown[] }) => void children.reverse()),
    ],
    [
      "a parent with the result of one child only",
      "lost",
      /got 1 results of 2 children/,
      () => inResult("r2-family-1", ({ children }: { children: unknown[] }) => void children.pop()),
    ],
    [
      "a stopped parent that is completed",
      "wrong",
      /r1-family-1 is completed/,
      () =>
        inLog("r1-family-1", (events) => {
          for (const { event, data } of events)
            if (event === "snapshot") Object.assign(data, { status: "completed" });
          return events;
        }),
    ],
    [
      "a child that failed and should not",
      "wrong",
      /child \S+ \(\S+\) of a parent that is completed is failed/,
      () =>
        inLog(/[0-9a-f-]{36}/, (events) => {
          for (const { event, data } of events)
            if (event === "snapshot" && (data as unknown as { status: string }).status === "completed")
              Object.assign(data, { status: "failed" });
          return events;
        }),
    ],
    [
      "a job that nobody started",
      "doubled",
      /nobody has started it/,
      () =>
        inLog(/each-[0-9TZ]+/, (events) => {
          for (const { event, data } of events)
            if (event === "snapshot") Object.assign(data, { schedule: null });
          return events;
        }),
    ],
    [
      "a planned time without a job",
      "lost",
      /schedule each: no job for/,
      () =>
        inList(
          /^\/jobs\?/,
          without(({ job_id }) => job_id.startsWith("each-")),
        ),
    ],
    [
      "two jobs for one planned time",
      "doubled",
      /schedule in-turn: two jobs for/,
      () => {
        const schedule = { id: "in-turn", at: new Date(0).toISOString() };
        return inLog(/in-turn-[0-9TZ]+/, (events) => {
          for (const { event, data } of events) if (event === "snapshot") Object.assign(data, { schedule });
          return events;
        });
      },
    ],
    [
      "jobs that overlap",
      "doubled",
      /schedule one-at-a-time: job \S+ started before \S+ had ended/,
      () =>
        inLog(/one-at-a-time-[0-9TZ]+/, (events) => {
          for (const { event, data } of events)
            if (event === "snapshot") Object.assign(data, { finished_at: "2999-01-01T00:00:00.000Z" });
          return events;
        }),
    ],
    [
      "the event of another job",
      "swapped",
      /got event \S+ of r1-listener-1/,
      () =>
        inResult("r2-listener-1", ({ events }: { events: { data: object }[] }) =>
          Object.assign(events[1]!.data, { order: "r1-listener-1" }),
        ),
    ],
    [
      "an event that a job got again",
      "doubled",
      /got event r2-listener-1-event-1 again/,
      () =>
        inResult("r2-listener-1", ({ events }: { events: unknown[] }) => {
          events[1] = events[0];
        }),
    ],
    [
      "events in another order",
      "swapped",
      /got events \S+-event-4/,
      () => inResult("r2-listener-1", ({ events }: { events: unknown[] }) => void events.reverse()),
    ],
    [
      "an event that is not stored",
      "lost",
      /event \S+ was acknowledged, and is not stored/,
      () => inList(/^\/events\?/, (items) => items.slice(1)),
    ],
    [
      "an event that is stored twice",
      "doubled",
      /event \S+ is stored 2 times/,
      () => inList(/^\/events\?/, (items) => [...items, items[0]]),
    ],
    [
      "the answer of another job",
      "swapped",
      /was answered \d+, and got \d+/,
      () =>
        inResult("r2-reworded-1", (result: { amount: number }) => {
          result.amount--;
        }),
    ],
    [
      "an answer that is not in the log",
      "lost",
      /the answer to case/,
      () => inLog("r2-reworded-1", (events) => events.filter(({ event }) => event !== "answer")),
    ],
    [
      "a step's result that belongs to another step",
      "swapped",
      /the result of step "one" is that of step "pay"/,
      () =>
        inLog("r2-reworded-1", (events) => {
          const steps = events.filter(isCall("step"));
          steps[0]!.data.result = steps.at(-1)!.data.result!;
          return events;
        }),
    ],
    [
      "a call that is recorded twice",
      "doubled",
      /is recorded twice/,
      () =>
        inLog("r2-moved-1", (events) => {
          const again = events.find(isCall("step"))!;
          return events.toSpliced(-1, 0, { ...again, id: "999" });
        }),
    ],
    [
      "a job that has not done all of its code",
      "wrong",
      /did one; its code does one, pay/,
      () => inResult("r2-reworded-1", ({ did }: { did: { pay?: unknown } }) => void delete did.pay),
    ],
    [
      "a job of the other version",
      "swapped",
      /version 1\.0\.0 has run it/,
      () =>
        inResult("r2-pair-1", (result: { version: string }) => {
          result.version = "1.0.0";
        }),
    ],
    [
      "a job that had to be held",
      "wrong",
      /it must have been held/,
      () =>
        inLog("r2-renamed-1", (events) => {
          const step = events.find(isCall("step"))!;
          const other = { ...step, id: "999", data: { ...step.data, name: "one", position: 99 } };
          return events.toSpliced(-1, 0, other as StreamEvent);
        }),
    ],
    [
      "a branch that is false for a new job",
      "wrong",
      /job\.changed was false, although/,
      () =>
        inLog("r2-branch-1", (events) => {
          for (const { data } of events)
            if (data.type === "mark" && data.mark === "changed") Object.assign(data, { is: false });
          return events;
        }),
    ],
    [
      "a branch that is decided twice",
      "doubled",
      /job\.changed is recorded 2 times/,
      () =>
        inLog("r2-branch-1", (events) => {
          const mark = events.find(({ data }) => data.type === "mark" && data.mark === "changed")!;
          return events.toSpliced(-1, 0, { ...mark, id: "999" });
        }),
    ],
  ];

  test.each(MUTANTS)("find %s", async (_, kind, message, change) => {
    const findings = await check(change());

    expect(findings[kind].join("\n")).toMatch(message);
  });

  test("find a line of the log that was shown and is gone", async () => {
    const [job] = jobs;
    job!.seen.set("3", "{}");

    const findings = await check();
    job!.seen.clear();

    expect(findings.lost.join("\n")).toMatch(/line 3 of its log/);
  });

  test("find a step that ran after it was recorded, and one that did not run", async () => {
    const file = join(folder, JOURNAL_FILE);
    const journal = await readFile(file, "utf8");
    await appendFile(
      file,
      `2\tr2-reworded-1\tpay\t${server.service.get(CLOCK)().getTime()}\n1\tr2-moved-1\tpay\t1\n`,
    );
    const { doubled } = await check();
    await writeFile(file, journal.replace(/^1\tr2-reworded-1\tone\t.*\n/m, ""));
    const { wrong } = await check();
    await writeFile(file, journal);

    expect(doubled).toEqual([
      expect.stringMatching(/r2-reworded-1: step "pay", recorded in process 1 .*, ran in processes 1 .*, 2 /),
      expect.stringMatching(/r2-moved-1: step "pay", recorded in process 1 .*, ran in processes 1 .*, 1 /),
    ]);
    expect(wrong).toEqual([expect.stringContaining("process 1, which did not run it")]);
  });

  test("find a step that a process stored while another one had the job", async () => {
    const { wrong } = await check(
      inLog("r2-moved-1", (events) => {
        Object.assign(events.filter(isCall("step"))[1]!.data.result as object, { life: 2 });
        return events;
      }),
    );

    expect(wrong.join("\n")).toMatch(/r2-moved-1: step "\w+" of process 2 was stored while process 1 had/);
  });

  test("know that a call which was added before an open question fits the code that added it", () => {
    const call = (type: "begun" | "call", kind: string, name: string) =>
      ({ type, call: kind, name, at: "", position: 0 }) as RunEntry;
    const log = [
      call("call", "open_case", "a"),
      call("call", "step", "one"),
      call("begun", "ask", "amount"),
      call("call", "step", "added"),
      call("begun", "ask", "amount"),
    ];

    expect(isBeginning(planOf("added_before", 2), log)).toBe(true);
    expect(isBeginning(planOf("added_before", 4), log)).toBe(false);
    expect(isBeginning(planOf("moved", 1), [...log.slice(0, 2)])).toBe(false);
  });

  test("find a job that is held although it fits", () => {
    const call = (kind: string, name: string) =>
      ({ type: "call", call: kind, name, at: "", position: 0 }) as RunEntry;
    const log = [call("open_case", "a"), call("step", "one"), call("ask", "amount")];
    const held = (expected: string, found: string | null) => ({ expected, found });
    const why = (deploy: number, expected: string, found: string | null) =>
      whyNotHeld(planOf("renamed", deploy), held(expected, found), log);

    expect(why(2, 'step "one" of case "a"', 'step "uno" of case "a"')).toBeUndefined();
    expect(why(0, 'step "one" of case "a"', 'step "uno" of case "a"')).toMatch(/its code makes step "one"/);
    expect(why(2, 'step "pay" of case "a"', null)).toMatch(/is not in its record/);
    expect(whyNotHeld(undefined, held('step "one"', null), log)).toMatch(/the same calls in each deploy/);
    // Added before a call that was made.
    const added = [call("step", "one"), call("ask", "amount"), call("step", "pay")];
    const before = held('ask "amount" of case "a"', 'step "added" of case "a"');
    expect(whyNotHeld(planOf("added_before", 2), before, added)).toBeUndefined();
    expect(whyNotHeld(planOf("added_before", 0), before, added)).toMatch(/its code makes ask "amount"/);
  });
});
