import { expect, test } from "vitest";
import { KeyedMutex } from "../../src/core/base/keyed-mutex.ts";
import { gate } from "../runs/_agent.ts";

test("work on one key is done in order, also after a failure, and work on another does not wait", async () => {
  const mutex = new KeyedMutex();
  const first = gate();
  const did: string[] = [];

  const failing = mutex.run("a", async () => {
    await first.opened;
    did.push("first");
    throw new Error("failed");
  });
  const second = mutex.run("a", async () => void did.push("second"));
  await mutex.run("b", async () => void did.push("other"));
  first.open();

  await expect(failing).rejects.toThrow("failed");
  await second;
  expect(did).toEqual(["other", "first", "second"]);
});

test("work on a free key starts immediately", () => {
  const mutex = new KeyedMutex();
  let isBegun = false;

  void mutex.run("a", async () => {
    isBegun = true;
  });

  expect(isBegun).toBe(true);
});
