import { expect, it } from "vitest";
import { Breaker } from "../../src/plugins/events/breaker.ts";

const HOUR = 3_600_000;
const broken = (initial: number) => new Breaker({ failures: 1, initial, max: HOUR, random: () => 0.5 });

it("a pause is not longer because the clock is set back, and over where it is set forward", async () => {
  const now = Date.now();
  const [short, long] = [broken(20), broken(HOUR)];

  short.fail(now);
  long.fail(now);

  expect([short.enter(now - HOUR), long.enter(now)]).toEqual([false, false]);
  await expect.poll(() => short.enter(now - HOUR)).toBe(true);
  expect(long.left(now - HOUR)).toBeLessThanOrEqual(2 * HOUR);
  expect(long.enter(now + 2 * HOUR)).toBe(true);
});

it("a pause that a receiver has asked for does not end with a shorter one", () => {
  const now = Date.now();
  const breaker = broken(20);

  breaker.fail(now, HOUR);
  breaker.fail(now, 1000);

  expect(breaker.left(now)).toBeGreaterThan(HOUR - 60_000);
  expect(breaker.enter(now + 2000)).toBe(false);
});
