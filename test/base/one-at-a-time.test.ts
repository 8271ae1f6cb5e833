import { expect, test } from "vitest";
import { oneAtATime } from "../../src/core/base/one-at-a-time.ts";
import { gate } from "../runs/_agent.ts";

test("work that is asked for while it is done is done once more, and who asked waits for that", async () => {
  const first = gate();
  let begun = 0;
  const work = oneAtATime(async () => {
    begun++;
    if (begun === 1) await first.opened;
  });

  const all = [work(), work(), work()];
  expect(begun).toBe(1);
  first.open();
  await Promise.all(all);
  expect(begun).toBe(2);
  await work();
  expect(begun).toBe(3);
});

test("work that asks for itself before it waits for anything is not done twice at the same time", async () => {
  let begun = 0;
  let underWay = 0;
  const work = oneAtATime(async () => {
    expect(underWay++).toBe(0);
    if (++begun < 3) void work();
    await undefined;
    underWay--;
  });

  await work();
  expect(begun).toBe(3);
});
