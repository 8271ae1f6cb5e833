import { expect, test } from "vitest";
import { nextDue, PlannedTimes } from "../../src/core/runs/schedules/planned-times.ts";

const ms = (text: string) => Date.parse(text);

function between(times: PlannedTimes, from: string, to: string): string[] {
  const found: string[] = [];
  for (let at = times.after(ms(from) - 1); at !== undefined && at < ms(to); at = times.after(at))
    found.push(new Date(at).toISOString().slice(0, 16));
  return found;
}

/** Central Europe goes to summer time on 2026-03-29 at 01:00 UTC, and back on 2026-10-25 at 01:00 UTC. */
const SPRING = ["2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z"] as const;
const AUTUMN = ["2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"] as const;
const PARIS = "Europe/Paris";

test("a time in the night that clocks go forward comes once, at the end of the gap", () => {
  for (const cron of ["30 2 * * *", "15,45 2 * * *"])
    expect(between(new PlannedTimes(cron, PARIS), ...SPRING)).toEqual(["2026-03-29T01:00"]);
  expect(between(new PlannedTimes("30 2,3 * * *", PARIS), ...SPRING)).toEqual([
    "2026-03-29T01:00",
    "2026-03-29T01:30",
  ]);
});

test("a time in the night that clocks go back comes once, at the first pass", () => {
  expect(between(new PlannedTimes("30 2 * * *", PARIS), ...AUTUMN)).toEqual(["2026-10-25T00:30"]);
  expect(between(new PlannedTimes("0 2,3 * * *", PARIS), ...AUTUMN)).toEqual([
    "2026-10-25T00:00",
    "2026-10-25T02:00",
  ]);
});

test("an hourly pattern follows the real time through both nights", () => {
  const hourly = new PlannedTimes("0 * * * *", PARIS);

  for (const [from, to] of [SPRING, AUTUMN]) {
    const found = between(hourly, from, to);
    expect(found).toHaveLength(24);
    expect(new Set(found).size).toBe(24);
  }
});

test("what came last up to a time is what comes next from before it, also in the nights that clocks change", () => {
  const patterns = [
    "30 2 * * *",
    "*/23 * * * *",
    "0 2-3 * * *",
    "0 0 1 * *",
    "5 1,2,3 * * MON-SAT",
    "@weekly",
  ];
  for (const zone of ["UTC", PARIS, "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"]) {
    for (const pattern of patterns) {
      const times = new PlannedTimes(pattern, zone);
      for (const start of [SPRING[0], AUTUMN[0], "2026-04-04T00:00:00Z", "2026-11-01T00:00:00Z"]) {
        let last: number | undefined;
        for (let at = times.after(ms(start)); at !== undefined && at < ms(start) + 40 * 3_600_000; ) {
          for (const moment of [at, at + 1, at + 999, at + 30_000])
            expect(times.upTo(moment), `${pattern} ${zone} ${new Date(moment).toISOString()}`).toBe(at);
          if (last !== undefined) expect(times.upTo(at - 1)).toBe(last);
          last = at;
          at = times.after(at);
        }
      }
    }
  }
});

test("a pattern is refused that is a date, has too many fields, an unknown zone, or no time at all", () => {
  const problem = (pattern: string, zone = "UTC") => {
    try {
      new PlannedTimes(pattern, zone);
      return "none";
    } catch (error) {
      return (error as Error).message;
    }
  };

  expect(problem("2026-12-24T18:00:00")).toContain("must have 5 fields");
  expect(problem("0 0 3 * * * 2027")).toContain("must have 5 fields");
  expect(problem("61 * * * *")).toContain("CronPattern");
  expect(problem("@sometimes")).not.toBe("none");
  expect(problem("0 3 * * *", "Mars/Base")).toContain('"Mars/Base"');
  expect(problem("0 0 31 2 *")).toContain("no time that ever comes");
  expect(problem("@daily")).toBe("none");
  expect(problem("*/5 * * * * *")).toBe("none");
});

test("each time in the window is due; where none is, the latest", () => {
  const times = new PlannedTimes("0 * * * *", "UTC");
  const after = ms("2026-05-01T00:00:00Z");
  const now = ms("2026-05-01T05:30:00Z");
  const due = (window: number, latest = true) => {
    const found = nextDue(times, { after, now, catchUp: { window, latest } });
    return (
      found && [new Date(found.at).toISOString().slice(11, 16), found.isMissed, found.leftOut !== undefined]
    );
  };

  expect(due(Number.POSITIVE_INFINITY)).toEqual(["01:00", false, false]);
  expect(due(2 * 3_600_000)).toEqual(["04:00", false, true]);
  expect(due(2.5 * 3_600_000)).toEqual(["03:00", false, true]);
  expect(due(0)).toEqual(["05:00", false, true]);
  expect(due(60_000, false)).toEqual(["05:00", true, true]);
  expect(nextDue(times, { after, now: after + 1000, catchUp: { window: 0, latest: true } })).toBeUndefined();
});
