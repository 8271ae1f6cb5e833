import { expect, it } from "vitest";
import { DatabaseClock } from "../../src/core/store/postgres/database-clock.ts";

const HOUR = 3_600_000;

/** Notes the time of a clock that is `ahead` of the monotonic one, read after half of `wait` milliseconds. */
function note(clock: DatabaseClock, { at, ahead, wait, early = 0 }: Record<string, number>): void {
  const asked = at!;
  clock.note(asked + wait! / 2 + early + ahead!, { asked, answered: asked + wait! });
}

const aheadOf = (clock: DatabaseClock) => Math.round(clock.now() - performance.now());

it("the clock of a database keeps what it knows best, until that has drifted or a clock was set", () => {
  const clock = new DatabaseClock();
  note(clock, { at: 0, ahead: HOUR, wait: 200, early: -90 });
  note(clock, { at: 1000, ahead: HOUR, wait: 2 });
  expect(aheadOf(clock)).toBe(HOUR);
  note(clock, { at: 2000, ahead: HOUR, wait: 400, early: -190 });
  expect(aheadOf(clock)).toBe(HOUR);
  // The machine was suspended for a minute, or the database has moved.
  note(clock, { at: 3000, ahead: HOUR + 60_000, wait: 400 });
  expect(aheadOf(clock)).toBe(HOUR + 60_000);
  note(clock, { at: 4_003_000, ahead: HOUR + 60_300, wait: 700 });
  expect(aheadOf(clock)).toBe(HOUR + 60_300);
});
