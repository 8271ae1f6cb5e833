import { expect, it } from "vitest";
import { ClockGuard, HOLD, JUMP } from "../../src/core/retention/clock-guard.ts";

const START = { time: 1_800_000_000_000, elapsed: 5_000 };
const after = (elapsed: number, ahead = 0) => ({
  time: START.time + elapsed + ahead,
  elapsed: START.elapsed + elapsed,
});

it("a clock that advances normally is trusted, however long nobody checked", () => {
  const guard = new ClockGuard(START);

  expect(guard.ahead(after(90 * JUMP))).toBe(0);
});

it("a clock that was set forward is not trusted until it stays so for a while", () => {
  const guard = new ClockGuard(START);

  expect(guard.ahead(after(1000, 2 * JUMP))).toBe(2 * JUMP);
  expect(guard.ahead(after(1000 + HOLD - 1, 2 * JUMP))).toBe(2 * JUMP);
  expect(guard.ahead(after(1000 + HOLD, 2 * JUMP))).toBe(0);
});

it("once it is correct again, the next jump is distrusted for the same time", () => {
  const guard = new ClockGuard(START);

  expect(guard.ahead(after(1000, 2 * JUMP))).toBe(2 * JUMP);
  expect(guard.ahead(after(2000))).toBe(0);
  expect(guard.ahead(after(1000 + HOLD, 2 * JUMP))).toBe(2 * JUMP);
});

it("a clock that was set back makes nothing due and is trusted", () => {
  const guard = new ClockGuard(START);

  expect(guard.ahead(after(1000, -400 * JUMP))).toBe(0);
  expect(guard.ahead(after(2000, -400 * JUMP))).toBe(0);
});
