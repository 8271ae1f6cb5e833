import { expect, onTestFinished, test, vi } from "vitest";
import { WallTimers } from "../../src/core/base/wall-timers.ts";

const HOUR = 3_600_000;

/** Timers whose clocks the test turns: `pass` lets time pass, `set` sets the time of day, `sleep` suspends the machine. */
function machine() {
  vi.useFakeTimers({
    now: Date.parse("2026-03-01T12:00:00Z"),
    toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"],
  });
  onTestFinished(() => void vi.useRealTimers());
  let ahead = Date.parse("2026-03-01T12:00:00Z");
  const timers = new WallTimers(() => new Date(performance.now() + ahead));
  const set = (by: number) => {
    ahead += by;
  };
  return { timers, pass: (by: number) => vi.advanceTimersByTimeAsync(by), set, sleep: set };
}

test.each([HOUR, 3 * 24 * HOUR])(
  "a wait ends soon after the time of day has run ahead of it, by %i ms",
  async (jump) => {
    const { timers, pass, set } = machine();
    const over = vi.fn();
    timers.start(20 * 60_000, over);
    await pass(60_000);

    set(jump);
    await pass(5000);

    expect(over).toHaveBeenCalledTimes(1);
    await pass(HOUR);
    expect(over).toHaveBeenCalledTimes(1);
  },
);

test("a wait ends soon after its time where the machine slept for a part of it", async () => {
  const { timers, pass, sleep } = machine();
  const over = vi.fn();
  timers.start(HOUR, over);
  await pass(60_000);

  sleep(30 * 60_000);
  await pass(28 * 60_000);
  expect(over).not.toHaveBeenCalled();
  await pass(60_000 + 5000);

  expect(over).toHaveBeenCalledTimes(1);
});

test("a wait is not longer where the clock is set back, and not shorter where that is undone", async () => {
  const { timers, pass, set } = machine();
  const [one, other] = [vi.fn(), vi.fn()];
  timers.start(20 * 60_000, one);
  await pass(10 * 60_000);

  set(-HOUR);
  timers.start(20 * 60_000, other);
  await pass(9 * 60_000);
  expect(one).not.toHaveBeenCalled();
  await pass(60_000 + 5000);
  expect(one).toHaveBeenCalledTimes(1);
  expect(other).not.toHaveBeenCalled();

  set(HOUR);
  await pass(5000);
  expect(other).toHaveBeenCalledTimes(1);
});

test("a clock that is set back and forward between two checks does not hide that a wait is over", async () => {
  const { timers, pass, set } = machine();
  const over = vi.fn();
  timers.start(2 * HOUR, () => {});
  await pass(2000);

  set(-HOUR);
  timers.start(20 * 60_000, over);
  set(HOUR);
  await pass(5000);

  expect(over).toHaveBeenCalledTimes(1);
});

test("how long something runs does not depend on the time of day", async () => {
  const { timers, pass, set } = machine();
  const over = vi.fn();
  timers.start(20 * 60_000, over, "running");

  set(3 * 24 * HOUR);
  await pass(5000);

  expect(over).not.toHaveBeenCalled();
});

test("what is cancelled does not end, and nothing is checked where nothing waits", async () => {
  const { timers, pass, set } = machine();
  const over = vi.fn();
  const cancels = Array.from({ length: 100 }, (_, n) => timers.start((n + 1) * 60_000, over));
  await pass(2000);
  expect(vi.getTimerCount()).toBe(101);

  for (const cancel of cancels) cancel();
  set(3 * 24 * HOUR);
  await pass(5000);

  expect(over).not.toHaveBeenCalled();
  expect(vi.getTimerCount()).toBe(0);
});

test("nothing is checked after the last wait has ended, and the next wait is checked again", async () => {
  const { timers, pass, set } = machine();
  const [one, other] = [vi.fn(), vi.fn()];
  timers.start(60_000, one);
  await pass(60_000 + 5000);
  expect(one).toHaveBeenCalledTimes(1);
  expect(vi.getTimerCount()).toBe(0);

  timers.start(20 * 60_000, other);
  set(HOUR);
  await pass(5000);

  expect(other).toHaveBeenCalledTimes(1);
});

test("a clock that is set back, and forward again by less, makes no wait longer", async () => {
  const { timers, pass, set } = machine();
  const over = vi.fn();
  timers.start(20 * 60_000, over);
  await pass(10 * 60_000);

  set(-HOUR);
  timers.start(2 * HOUR, () => {});
  set(HOUR / 2);
  await pass(10 * 60_000 + 5000);

  expect(over).toHaveBeenCalledTimes(1);
});
