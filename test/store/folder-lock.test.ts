import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockFolder } from "../../src/core/store/json/folder-lock.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { Writer } from "./crash-process.ts";

const log = { info() {}, warn() {}, error() {} };

describe("the lock of a data folder", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "store-lock-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("refuses a second process with the first one's id and host, and is taken over when the first is dead", async () => {
    const writer = await Writer.start(folder);
    await writer.until(() => writer.isOpen);
    const refusal = openJsonStore({ tables: CORE_TABLES, dataDir: folder, log });
    await expect(refusal).rejects.toThrow(`is in use by process ${writer.process.pid} on ${hostname()}`);

    await writer.kill();

    const store = await openJsonStore({ tables: CORE_TABLES, dataDir: folder, log });
    await store.close();
  });

  it("is held by one of many that ask concurrently", async () => {
    for (let round = 0; round < 10; round++) {
      const outcomes = await Promise.allSettled(Array.from({ length: 8 }, () => lockFolder(folder, log)));
      const held = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
      expect(held).toHaveLength(1);
      await held[0]!.release();
    }
  });

  it("leaves one file, however often it was acquired", async () => {
    for (let round = 0; round < 5; round++) await (await lockFolder(folder, log)).release();

    expect(readdirSync(folder)).toEqual(["lock.5.free"]);
  });

  it("works in a folder whose path is too long for a socket", async () => {
    const deep = join(folder, "d".repeat(100), "e".repeat(100));
    mkdirSync(deep, { recursive: true });
    const lock = await lockFolder(deep, log);

    await expect(lockFolder(deep, log)).rejects.toThrow("is in use by process");

    await lock.release();
    await (await lockFolder(deep, log)).release();
  });
});
