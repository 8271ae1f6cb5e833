import { expect, it } from "vitest";
import { WrongKeys } from "../../src/core/http/wrong-keys.ts";

const MINUTE = 60_000;

it("an address that sent wrong keys waits no longer than a minute, also where the clock is set back", () => {
  let now = Date.UTC(2026, 0, 31);
  const keys = new WrongKeys(() => new Date(now));
  for (let count = 0; count < 20; count++) keys.wrong("192.0.2.1");
  for (let count = 0; count < 2000; count++) keys.wrong(`192.0.2.${count % 200}`);

  expect([keys.wait("192.0.2.1"), keys.wait("198.51.100.7")]).toEqual([60, 60]);
  now -= 60 * MINUTE;
  expect([keys.wait("192.0.2.1"), keys.wait("198.51.100.7")]).toEqual([0, 0]);

  for (let count = 0; count < 20; count++) keys.wrong("192.0.2.1");
  expect(keys.wait("192.0.2.1")).toBe(60);
  now += MINUTE;
  expect(keys.wait("192.0.2.1")).toBe(0);
});
