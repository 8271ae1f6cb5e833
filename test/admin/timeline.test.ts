import { expect, it } from "vitest";
import type { StoredCase } from "../../src/core/models/case.ts";
import type { Job, StoredJob } from "../../src/core/models/job.ts";
import type { RunEntry } from "../../src/core/models/run-entry.ts";
import { duringRun, runsOf } from "../../src/plugins/admin/job/runs.ts";
import { fold } from "../../src/plugins/admin/views/fold.ts";
import { toStory } from "../../src/plugins/admin/views/story.ts";
import { summaryOf } from "../../src/plugins/admin/views/summary.ts";
import { toTimeline } from "../../src/plugins/admin/views/timeline.ts";
import { toWaterfall } from "../../src/plugins/admin/views/waterfall.ts";

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const time = (second: number) => Date.parse(at(second));
const now = new Date(at(60));

const job = {
  id: "j",
  name: "Job",
  status: "completed",
  created_at: at(0),
  finished_at: at(40),
  total_cost: 3,
  error: null,
} as Job;
const item = {
  id: "c",
  job_id: "j",
  name: "Case",
  status: "completed",
  created_at: at(6),
  finished_at: at(38),
  total_cost: 2,
  last_error: null,
} as unknown as StoredCase;

const entries: RunEntry[] = [
  { type: "status", at: at(0), from: null, to: "stopped" },
  { type: "status", at: at(2), from: "stopped", to: "in_progress" },
  { type: "begun", at: at(2), position: 0, call: "step", name: "read", attempt: 1 },
  { type: "attempt", at: at(3), position: 0, name: "read", attempt: 1, error: "503", started_at: at(2) },
  {
    type: "call",
    at: at(5),
    position: 0,
    call: "step",
    name: "read",
    attempts: 2,
    cost: 1,
    started_at: at(2),
  },
  { type: "call", at: at(10), case_id: "c", position: 0, call: "update", name: "checked" },
  { type: "mark", at: at(23), mark: "interrupted", since: at(20) },
  { type: "mark", at: at(24), mark: "resumed" },
  { type: "status", at: at(25), from: "in_progress", to: "awaiting" },
  { type: "begun", at: at(25), case_id: "c", position: 1, call: "ask", name: "Pay?", attempt: 1 },
  { type: "answer", at: at(35), case_id: "c", question_id: "1", answer: { ok: true }, by: "Ada (session x)" },
  { type: "call", at: at(35), case_id: "c", position: 1, call: "ask", name: "Pay?" },
  { type: "status", at: at(35), from: "awaiting", to: "in_progress" },
  { type: "status", at: at(40), from: "in_progress", to: "completed" },
];

it("a timeline has a row for the job, each case, step and question, in order of time", () => {
  const { rows, interruptions, waited } = toTimeline(job, [item], entries, now);

  expect(rows.map(({ kind, name }) => [kind, name])).toEqual([
    ["job", "Job"],
    ["step", "read"],
    ["case", "Case"],
    ["question", "Pay?"],
  ]);
  expect([interruptions, waited]).toEqual([1, 10_000]);
});

it("spans distinguish queueing, work, waiting, failed attempts and interruptions", () => {
  const [jobRow, step, caseRow, question] = toTimeline(job, [item], entries, now).rows;

  expect(jobRow!.spans.map(({ kind, from, to }) => [kind, from, to])).toEqual([
    ["queued", time(0), time(2)],
    ["work", time(2), time(20)],
    ["work", time(24), time(25)],
    ["waiting", time(25), time(35)],
    ["work", time(35), time(40)],
    ["interrupted", time(20), time(24)],
  ]);
  expect(step!.spans.map(({ kind, from, to }) => [kind, from, to])).toEqual([
    ["failed", time(2), time(3)],
    ["work", time(3), time(5)],
  ]);
  expect([step!.attempts, step!.cost]).toEqual([2, 1]);
  expect(caseRow!.spans.map(({ kind }) => kind)).toEqual(["work", "work", "waiting", "interrupted"]);
  expect(caseRow!.moments).toEqual([
    { at: time(10), note: "checked" },
    { at: time(25), note: "Pay?" },
    { at: time(35), note: "answer" },
  ]);
  expect(question).toMatchObject({ from: time(25), to: time(35), running: false });
});

it("downtime has its real length, starting at the last sign of life, and does not count as work of the job, its case or its step", () => {
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    { type: "call", call: "open_case", at: at(6), case_id: "c", position: 0, name: "c", result: "c" },
    { type: "call", call: "step", at: at(8), case_id: "c", position: 0, name: "one", started_at: at(7) },
    { type: "begun", call: "step", at: at(9), case_id: "c", position: 1, name: "two", attempt: 2 },
    { type: "mark", at: at(33), mark: "interrupted", since: at(10) },
    { type: "mark", at: at(34), mark: "resumed" },
    { type: "call", call: "step", at: at(36), case_id: "c", position: 1, name: "two", started_at: at(9) },
  ];

  const timeline = toTimeline(job, [item], log, now);
  const fall = toWaterfall(timeline, { currency: "$" });

  expect([timeline.downtime, timeline.interruptions, fall.downtime]).toEqual([24_000, 1, "24 s"]);
  for (const row of timeline.rows.filter(({ name }) => name !== "one")) {
    const spans = row.spans.filter(({ kind }) => kind === "work" || kind === "interrupted");
    expect(spans.map(({ kind, from, to }) => [kind, from, to])).toEqual([
      ["work", row.name === "Job" ? time(2) : row.from, time(10)],
      ["work", time(34), row.to],
      ["interrupted", time(10), time(34)],
    ]);
  }
  expect(fall.parts[0]!.items[0]!.shapes).toContain('fill="url(#fall-hatch)" x="25%" y="2" width="60%"');
});

it("downtime ends when the job is held, and does not grow while it waits for a person", () => {
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    { type: "mark", at: at(9), mark: "interrupted", since: at(4) },
    { type: "mark", at: at(9), mark: "held" },
    { type: "status", at: at(9), from: "in_progress", to: "awaiting", reason: "crash_loop" },
  ];
  const open = { ...job, status: "awaiting", finished_at: null } as Job;

  const { downtime, interruptions } = toTimeline(open, [], log, now);

  expect([downtime, interruptions]).toEqual([5000, 1]);
});

it("downtime in a log of version 0.1.0 starts at the last entry before it", () => {
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    { type: "call", call: "step", at: at(8), position: 0, name: "one", started_at: at(7) },
    { type: "mark", at: at(33), mark: "interrupted" },
    { type: "mark", at: at(34), mark: "resumed" },
  ];

  expect(toTimeline(job, [], log, now).downtime).toBe(26_000);
});

it("the history shows how long the service was down, and after which step the job was resumed", () => {
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    { type: "call", call: "step", at: at(8), position: 0, name: "round 6", started_at: at(7) },
    { type: "mark", at: at(41), mark: "interrupted", message: "m", since: at(9) },
    { type: "mark", at: at(42), mark: "resumed" },
    {
      type: "mark",
      at: at(50),
      mark: "interrupted",
      message: "The job was set to stopped by an operator",
      by: "Ada",
    },
    { type: "mark", at: at(55), mark: "resumed" },
  ];

  const story = toStory(
    log.map((entry, index) => ({ seq: index + 1, entry })),
    job,
  );
  const cut = toStory(
    log.map((entry, index) => ({ seq: index < 3 ? index + 1 : index + 10, entry })),
    job,
  );

  expect(story.slice(0, 4).map(({ text, by }) => [text, by])).toEqual([
    ['Resumed after step "round 6"', ""],
    ["Run ended: The job was set to stopped by an operator", "by Ada"],
    ['Down for 33 s: resumed after step "round 6"', ""],
    ["Service stopped while this job was in progress", ""],
  ]);
  expect(story[3]!.time).toContain(at(9));
  // Omitted lines may have done more.
  expect(cut[2]!.text).toBe("Down for 33 s: resumed where it was");
  expect(toTimeline(job, [], log, now).interruptions).toBe(1);
});

it("the span of a running step extends to now", () => {
  const open = { ...job, status: "in_progress", finished_at: null } as Job;
  const begun: RunEntry[] = [
    { type: "begun", at: at(50), position: 1, call: "step", name: "write", attempt: 1 },
  ];

  const { rows, to } = toTimeline(open, [], [...entries.slice(0, 2), ...begun], now);

  expect(to).toBe(now.getTime());
  expect(rows[1]).toMatchObject({ name: "write", from: time(50), to: now.getTime(), running: true });
});

it("a step and a question that a run has not finished end with it, and say so", () => {
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    { type: "begun", at: at(4), position: 0, call: "step", name: "write", attempt: 1 },
    { type: "begun", at: at(5), position: 1, call: "ask", name: "Pay?", attempt: 1 },
    { type: "begun", at: at(5), position: 2, call: "sleep", name: "sleep", attempt: 1 },
    { type: "status", at: at(8), from: "in_progress", to: "cancelled" },
  ];
  const ended = { ...job, status: "cancelled", finished_at: at(8) } as Job;

  const timeline = toTimeline(ended, [], log, now);
  const [, ...shown] = toWaterfall(timeline, { currency: "$" }).parts[0]!.items;

  expect(timeline.rows.slice(1).map(({ to, running, unfinished }) => [to, running, unfinished])).toEqual(
    Array.from({ length: 3 }, () => [time(8), false, true]),
  );
  expect(shown.map(({ note, since }) => [note, since])).toEqual(
    Array.from({ length: 3 }, () => ["not finished", ""]),
  );
  // A retry makes the call again.
  const again: RunEntry[] = [
    { type: "status", at: at(20), from: "cancelled", to: "stopped" },
    { type: "status", at: at(20), from: "stopped", to: "in_progress" },
    { type: "begun", at: at(21), position: 0, call: "step", name: "write", attempt: 2 },
  ];
  const resumed = toTimeline(
    { ...job, status: "in_progress", finished_at: null } as Job,
    [],
    [...log, ...again],
    now,
  );
  expect(resumed.rows[1]).toMatchObject({ name: "write", running: true, to: now.getTime() });
});

it("what waits for a message of a chat is called so, in the timeline and in the history", () => {
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    { type: "call", at: at(9), position: 0, call: "event", name: "chat.j", result: {} },
    { type: "call", at: at(10), position: 1, call: "event", name: "chat.other", result: {} },
  ];

  const fall = toWaterfall(toTimeline(job, [], log, now), { currency: "$", jobId: "j" });
  const story = toStory(
    log.map((entry, index) => ({ seq: index + 1, entry })),
    job,
  );

  expect(fall.parts[0]!.items.slice(1).map(({ name }) => name)).toEqual(["Message", "chat.other"]);
  expect(story.slice(0, 2).map(({ text }) => text)).toEqual([
    "Event received: chat.other",
    "Message received",
  ]);
});

it("a waterfall places bars by percent and escapes their text", () => {
  const hostile = entries.map((entry) =>
    entry.type === "attempt" ? { ...entry, error: "<script>" } : entry,
  );

  const fall = toWaterfall(toTimeline(job, [item], hostile, now), { currency: "$" });
  const rows = fall.parts.flatMap((part) => part.items);

  expect(fall.duration).toBe("40 s");
  expect(fall.waited).toBe("10 s");
  expect(rows[0]!.shapes).toContain('class="w-waiting" x="62.5%" y="2" width="25%"');
  expect(rows[1]!.shapes).not.toContain("<script>");
  expect(rows[1]).toMatchObject({ duration: "3 s", cost: "$1.00", note: "2 attempts" });
});

it("of a long run the beginning, the end and each failed or running line are shown, with links to the rest", () => {
  const steps = Array.from({ length: 900 }, (_, position): RunEntry => {
    const entry = {
      type: "call",
      at: at(3),
      case_id: "c",
      position,
      call: "step",
      name: `s${position}`,
    } as const;
    return position === 480 ? { ...entry, error: { name: "Error", message: "refused" } } : entry;
  });
  const under: RunEntry = {
    type: "begun",
    at: at(4),
    case_id: "c",
    position: 999,
    call: "ask",
    name: "Pay?",
    attempt: 1,
  };
  const log = [...steps.slice(0, 600), under, ...steps.slice(600)];
  const options = { currency: "$", query: { run: 1, step: "7.c" } };

  const fall = toWaterfall(toTimeline(job, [item], log, now), options);
  const page = toWaterfall(toTimeline(job, [item], log, now), {
    ...options,
    query: { ...options.query, line: 500 },
  });
  const seen = fall.parts.flatMap((part) => part.items);
  const omitted = fall.parts.filter((part) => part.more !== "");

  expect(seen.filter((row) => row.failed).map((row) => row.name)).toEqual(["s480"]);
  expect(seen.find((row) => row.since !== "")?.name).toBe("Pay?");
  expect(seen.map((row) => row.name)).toEqual(expect.arrayContaining(["Job", "Case", "s0", "s899"]));
  expect(seen.length).toBeLessThan(150);
  expect(seen.length + omitted.reduce((sum, { more }) => sum + Number.parseInt(more, 10), 0)).toBe(903);
  expect(omitted[0]!.moreHref).toBe("?run=1&step=7.c&line=45");
  expect(page.parts[0]!.items.map((row) => row.name)).toHaveLength(60);
  expect(page.pages).toEqual({
    label: "Lines 501 to 560 of 903",
    previous: "?run=1&step=7.c&line=440",
    next: "?run=1&step=7.c&line=560",
    all: "?run=1&step=7.c",
  });
});

it("of several cases each is one line with the segments of its steps; the open one shows its lines, too", () => {
  const other = { ...item, id: "d", name: "Other" };
  const log: RunEntry[] = [
    ...entries.slice(0, 2),
    ...(["c", "d"] as const).flatMap((case_id): RunEntry[] => [
      { type: "call", call: "step", at: at(9), case_id, position: 0, name: "one", started_at: at(7) },
      {
        ...{ type: "call", call: "step", at: at(12), case_id, position: 1, name: "ask model" },
        ...{ kind: "model", started_at: at(9) },
      },
    ]),
  ];
  const timeline = toTimeline(job, [item, other], log, now);
  const namesOf = (query: object, step?: string) =>
    toWaterfall(timeline, { currency: "$", query, step }).parts.flatMap((part) =>
      part.items.map(({ name }) => name),
    );

  const line = toWaterfall(timeline, { currency: "$" }).parts[0]!.items[1]!;

  expect(namesOf({})).toEqual(["Job", "Case", "Other"]);
  expect(namesOf({ case: "d" })).toEqual(["Job", "Case", "Other", "one", "ask model"]);
  expect(namesOf({}, "1.c")).toEqual(["Job", "Case", "one", "ask model", "Other"]);
  expect([...line.shapes.matchAll(/class="w-(\w+)"/g)].map((match) => match[1])).toEqual([
    "open",
    "work",
    "model",
  ]);
  expect(line.href).toBe("?case=c");
});

it("a wait that has not ended is folded as long as it has taken, not until the end of the axis", () => {
  const waiting = { ...job, status: "awaiting", finished_at: null } as Job;
  const record: RunEntry[] = [
    { type: "status", at: at(0), from: null, to: "in_progress" },
    { type: "call", at: at(2), position: 0, call: "step", name: "read", started_at: at(0) },
    { type: "status", at: at(3), from: "in_progress", to: "awaiting" },
    { type: "begun", at: at(3), position: 1, call: "ask", name: "Pay?", attempt: 1 },
  ];

  const timeline = toTimeline(waiting, [], record, new Date(at(584)));
  const { duration, folded, folds } = toWaterfall(timeline, { currency: "$" });

  expect(duration).toBe("9 min 44 s");
  expect(folded).toBe("9 min 41 s");
  expect(folds.map(({ title }) => title)).toEqual(["9 min 41 s of waiting, folded"]);
});

it("a timeline names each wait once: that for a person, and what else of the waiting is folded", () => {
  const record = (...after: RunEntry[]): RunEntry[] => [
    { type: "status", at: at(0), from: null, to: "in_progress" },
    { type: "call", at: at(2), position: 0, call: "step", name: "read", started_at: at(0) },
    { type: "begun", at: at(3), position: 1, call: "ask", name: "Pay?", attempt: 1 },
    { type: "status", at: at(4), from: "in_progress", to: "awaiting" },
    { type: "call", at: at(3604), position: 1, call: "ask", name: "Pay?" },
    { type: "status", at: at(3604), from: "awaiting", to: "in_progress" },
    ...after,
  ];
  const summary = (log: RunEntry[], end: number) => {
    const ended = { ...job, finished_at: at(end) };
    const done: RunEntry = { type: "status", at: at(end), from: "in_progress", to: "completed" };
    return summaryOf(toWaterfall(toTimeline(ended, [], [...log, done], now), { currency: "$" }));
  };
  const slept: RunEntry[] = [
    { type: "begun", at: at(3604), position: 2, call: "sleep", name: "sleep", attempt: 1 },
    { type: "call", at: at(9004), position: 2, call: "sleep", name: "sleep" },
  ];
  const worked: RunEntry = {
    type: "call",
    at: at(9006),
    position: 3,
    call: "step",
    name: "write",
    started_at: at(9004),
  };

  // The question opened a second before the job waited: the times differ, the wait is one.
  expect(summary(record({ ...worked, at: at(3606), started_at: at(3604) }), 3606)).toBe(
    ", 1 h waiting for a person (folded)",
  );
  expect(summary(record(...slept, worked), 9006)).toBe(
    ", 1 h waiting for a person (folded), 1 h 30 min of other waiting folded",
  );
});

it("a long wait between two moments of work is folded, and says how long it was", () => {
  const log: RunEntry[] = [
    { type: "status", at: at(0), from: null, to: "in_progress" },
    { type: "call", call: "step", at: at(2), position: 0, name: "one", started_at: at(0) },
    { type: "begun", call: "ask", at: at(2), case_id: "c", position: 0, name: "Pay?", attempt: 1 },
    { type: "status", at: at(2), from: "in_progress", to: "awaiting" },
    { type: "call", call: "ask", at: at(3002), case_id: "c", position: 0, name: "Pay?" },
    { type: "status", at: at(3002), from: "awaiting", to: "in_progress" },
    { type: "call", call: "step", at: at(3004), position: 1, name: "two", started_at: at(3002) },
    { type: "status", at: at(3004), from: "in_progress", to: "completed" },
  ];
  const long = { ...job, finished_at: at(3004) };

  const fall = toWaterfall(toTimeline(long, [], log, now), { currency: "$" });
  const one = fall.parts[0]!.items.find(({ name }) => name === "one")!;

  expect(fall.folded).toBe("50 min");
  expect(fall.folds).toEqual([{ x: "47%", width: "6%", title: "50 min of waiting, folded" }]);
  expect(one.shapes).toContain('x="0%" y="2" width="47%"');
  expect(fall.ticks.at(-1)).toMatchObject({ x: "53%", label: "50 min 2 s" });
  expect(fall.ticks.map(({ kind }) => kind)).toEqual(fall.ticks.map(() => "tick"));
  const short = toWaterfall(toTimeline({ ...job, finished_at: at(0).replace(".000", ".030") }, [], [], now), {
    currency: "$",
  });
  expect(short.ticks.map(({ kind }) => kind)).toEqual(short.ticks.map(() => "short"));
  expect(short.ticks.length).toBeGreaterThan(3);
});

it("a retry after the end is another run, with its own part of the log", () => {
  const failed: RunEntry[] = [
    { type: "status", at: at(0), from: null, to: "in_progress" },
    { type: "call", call: "step", at: at(2), position: 0, name: "one", started_at: at(0) },
    { type: "status", at: at(3), from: "in_progress", to: "failed" },
    { type: "mark", at: at(50), mark: "retried" },
    { type: "status", at: at(50), from: "failed", to: "in_progress" },
    { type: "call", call: "step", at: at(55), position: 1, name: "two", started_at: at(51) },
  ];
  const stored = { ...job, status: "in_progress", finished_at: null } as unknown as StoredJob;
  const numbered = failed.map((entry, index) => ({ seq: index + 1, entry }));

  const runs = runsOf(stored, numbered);
  const first = duringRun(stored, [{ ...item, created_at: at(1), finished_at: null }], runs[0]!);

  expect(runs.map(({ number, status, from, to }) => [number, status, from, to])).toEqual([
    [1, "failed", at(0), at(3)],
    [2, "in_progress", at(50), null],
  ]);
  expect(runs[1]!.entries.map(({ seq }) => seq)).toEqual([5, 6]);
  expect([first.job.finished_at, first.cases[0]!.finished_at]).toEqual([at(3), at(3)]);
});

it("marks span the whole line of a case, however many there are", () => {
  const updates = Array.from(
    { length: 5000 },
    (_, index): RunEntry => ({
      ...{ type: "call", call: "update", case_id: "c", position: 10 + index, name: "x" },
      at: new Date(time(6) + index * 6).toISOString(),
    }),
  );
  const timeline = toTimeline(job, [item], [...entries.slice(0, 2), ...updates], now);

  const row = toWaterfall(timeline, { currency: "$" }).parts[0]!.items.find((one) => one.kind === "case")!;
  const marks = [...row.shapes.matchAll(/class="w-moment" x="([\d.]+)%"/g)].map((match) => Number(match[1]));

  expect(marks.length).toBeLessThanOrEqual(401);
  expect(Math.min(...marks)).toBeCloseTo(15, 0);
  expect(Math.max(...marks)).toBeGreaterThan(85);
});

it("the history shows who did what, newest first", () => {
  const override: RunEntry = {
    type: "status",
    at: at(41),
    from: "completed",
    to: "failed",
    by: "Grace (session y)",
  };

  const story = toStory(
    [...entries, override].map((entry, index) => ({ seq: index + 1, entry })),
    job,
  );

  expect(story[0]).toMatchObject({ text: "Completed → Failed", by: "by Grace (session y)", tone: "bad" });
  expect(story.find((line) => line.text === "Question answered")).toMatchObject({ by: "by Ada (session x)" });
  expect(story.at(-1)).toMatchObject({ text: "Created" });
});

it("the history names the case of each of its calls", () => {
  const opened: RunEntry[] = [
    { type: "call", at: at(6), position: 1, call: "open_case", name: "C-1", result: "c" },
    { type: "call", at: at(7), case_id: "c", position: 0, call: "step", name: "send" },
    {
      ...{ type: "call", at: at(8), case_id: "c", position: 1, call: "step", name: "pay" },
      error: { name: "Error", message: "refused" },
    },
    { type: "attempt", at: at(9), case_id: "c", position: 2, name: "book", attempt: 1, error: "503" },
    { type: "call", at: at(10), case_id: "c", position: 3, call: "close", name: "close" },
    { type: "call", at: at(11), case_id: "unknown", position: 0, call: "close", name: "close" },
  ];

  const story = toStory(
    opened.map((entry, index) => ({ seq: index + 1, entry })),
    { ...job, created_at: at(5) },
  );

  expect(story.map(({ text }) => text)).toEqual([
    "Case closed",
    'Case "C-1" closed',
    'Step "book" of case "C-1", attempt 1, failed: 503',
    'Step "pay" of case "C-1" failed: refused',
    'Step "send" of case "C-1" done',
    'Case "C-1" opened',
  ]);
  expect(story.map(({ time }) => />([^<]*)</.exec(time)?.[1])).toEqual([
    "+6 s",
    "+5 s",
    "+4 s",
    "+3 s",
    "+2 s",
    "+1 s",
  ]);
});

it("a long list shows its beginning and the number of further rows", () => {
  const items = Array.from({ length: 45 }, (_, at) => at);

  const short = fold(items, 45, (count) => `${count} more`);
  const long = fold(items, 40, (count) => `${count} more`);

  expect(short).toEqual([{ label: "", items }]);
  expect(long.map(({ label, items }) => [label, items.length])).toEqual([
    ["", 40],
    ["5 more", 5],
  ]);
});

it("a timeline of many cases reads each call for its own case only", () => {
  let reads = 0;
  const count = 300;
  const cases = Array.from({ length: count }, (_, n) => ({
    ...item,
    get id() {
      reads++;
      return `c-${n}`;
    },
  })) as unknown as StoredCase[];
  const calls = Array.from(
    { length: 3 * count },
    (_, n): RunEntry => ({
      ...{ type: "call", call: "step", at: at(10), started_at: at(9), name: "read", position: n },
      case_id: `c-${n % count}`,
    }),
  );

  const { rows } = toTimeline(job, cases, calls, now);

  expect(rows).toHaveLength(1 + count + 3 * count);
  expect(reads / count).toBeLessThan(10);
});

it("the time of a job that has ended does not grow when one of its cases is deleted later", () => {
  const deleted: RunEntry = {
    type: "mark",
    at: at(3600),
    mark: "note",
    message: 'case "c" deleted',
    by: "Ada",
  };

  const { to, rows } = toTimeline(job, [], [...entries, deleted], now);

  expect([to, rows[0]!.to]).toEqual([time(40), time(40)]);
});

it("bars of a job that runs stay where they are from one refresh to the next", () => {
  const open = { ...job, status: "in_progress", finished_at: null } as Job;
  const begun = entries.slice(0, 5);
  const shapes = (second: number) => {
    const drawn = toWaterfall(toTimeline(open, [], begun, new Date(at(second))), { currency: "USD" });
    return [drawn.ticks, drawn.parts[0]!.items.find(({ name }) => name === "read")!.shapes];
  };

  expect(shapes(3601)).toEqual(shapes(3600));
  expect(shapes(3660)).not.toEqual(shapes(3600));
});

it("shows a part of the time: the lines that have a time in it, on its own axis", () => {
  const timeline = toTimeline(job, [item], entries, now);
  const draw = (query: object, step?: string) => toWaterfall(timeline, { currency: "$", query, step });

  const whole = draw({});
  const part = draw({ span: "24000-36000" });
  const rows = part.parts.flatMap(({ items }) => items);
  const bars = rows.flatMap(({ shapes }) => [...shapes.matchAll(/<rect class="w-(\w+)"[^>]* x="([\d.]+)%/g)]);

  expect(whole.zoom).toMatchObject({
    label: "",
    inHref: expect.stringMatching(/^\?span=\d+-\d+$/),
    ways: expect.any(Array),
  });
  expect(whole.zoom?.parts.length).toBeGreaterThan(3);
  expect(part.zoom?.label).toBe("24 s to 36 s of 40 s");
  expect(rows.map(({ name }) => name)).toEqual(["Job", "Case", "Pay?"]);
  // Neither the work before the part nor that after it is drawn as a mark at its edge.
  expect(bars.filter(([, kind]) => kind === "failed")).toEqual([]);
  expect(part.ticks[0]?.label).toBe("24 s");
  expect(part.ticks.slice(1).every(({ label }) => label.startsWith("+"))).toBe(true);
  expect(part.zoom?.ways).toEqual([
    { label: "Earlier", href: "?span=18000-30000" },
    { label: "Later", href: "?span=28000-40000" },
    { label: "Zoom in", href: expect.stringMatching(/^\?span=2\d{4}-3\d{4}$/) },
    { label: "Zoom out", href: "?span=18000-40000" },
    { label: "Whole time", href: "?" },
  ]);
  // A part that is past the end, or too short to be seen, is all of it.
  for (const span of ["50000-60000", "100-101", "9000-8000"]) expect(draw({ span }).zoom?.label).toBe("");
});
