import { expect, test } from "vitest";
import { exactAmount, exactSum } from "../../src/core/base/exact-amount.ts";

test("a sum of a thousand amounts has no noise of adding them", () => {
  const costs = [0.0071, 0.0003, 0.012].flatMap((cost) => Array<number>(1000).fill(cost));

  expect(exactAmount(costs.reduce((sum, cost) => sum + cost, 0))).not.toBe(19.4);
  expect(exactSum(costs)).toBe(19.4);
  expect(exactSum([])).toBe(0);
  expect(exactAmount(0.1 + 0.2)).toBe(0.3);
});
