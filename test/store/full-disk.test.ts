// @alone
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect } from "vitest";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { requirement } from "../_require.ts";
import { systemError } from "./faulty-io.ts";

const small = requirement("tmpfs");
const SIZE = 8 * 1024 * 1024;

small.describe("a disk that is full", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "store-full-"));
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${SIZE}`, "tmpfs", folder]);
  });
  afterEach(() => {
    execFileSync("umount", ["-l", folder]);
    rmSync(folder, { recursive: true });
  });

  const open = (io = nodeIo): Promise<Store> =>
    openJsonStoreWith({
      tables: CORE_TABLES,
      dataDir: join(folder, "data"),
      io,
      log: { info() {}, warn() {}, error() {} },
    });
  const filler = () => join(folder, "filler");

  /** Writes until there is no room; returns how many jobs were stored. */
  async function fill(store: Store): Promise<number> {
    for (let at = 0; ; at++) {
      try {
        await store.table("Job").insert(makeJob(`j${at}`, { payload: "x".repeat(100_000) }));
      } catch (error) {
        expect(error).toMatchObject({ type: "storage_error", detail: expect.stringContaining("Free space") });
        return at;
      }
    }
  }

  small.it(
    "refuses writes clearly, keeps what was stored, and continues once there is space, without a restart",
    async () => {
      writeFileSync(filler(), Buffer.alloc(3 * 1024 * 1024));
      const store = await open();
      const count = await fill(store);
      expect(store.health()).toMatchObject({
        writable: false,
        error: expect.stringContaining("The disk is full"),
      });
      expect((await store.table("Job").list({ limit: 1 })).total).toBe(count);
      expect((await store.table("Job").get("j0"))?.payload).toHaveLength(100_000);

      rmSync(filler());
      await store.table("Job").insert(makeJob("after"));

      expect(store.health().writable).toBe(true);
      await store.close();
      const again = await open();
      expect((await again.table("Job").list({ limit: 1 })).total).toBe(count + 1);
      await again.close();
    },
  );

  small.it("reports that it can write again, even without a write", async () => {
    writeFileSync(filler(), Buffer.alloc(3 * 1024 * 1024));
    const store = await open();
    await fill(store);

    rmSync(filler());

    await expect.poll(() => store.health().writable).toBe(true);
    await store.close();
  });

  small.it("still removes, which frees space", async () => {
    const store = await open();
    const count = await fill(store);
    for (let at = 0; at < count; at++) await store.table("Job").remove(`j${at}`);

    await expect.poll(() => store.health().writable).toBe(true);

    await store.table("Job").insert(makeJob("after", { payload: "x".repeat(100_000) }));
    await store.close();
  });

  small.it("frees the space of what was removed while there was too little to rewrite the rest", async () => {
    let isTooLittle = true;
    let refused = 0;
    const store = await open({
      ...nodeIo,
      open: (path, mode) => {
        if (isTooLittle && mode === "create" && path.includes("/Job.")) {
          refused++;
          throw systemError("ENOSPC");
        }
        return nodeIo.open(path, mode);
      },
    });
    const count = await fill(store);
    for (let at = 1; at < count; at++) await store.table("Job").remove(`j${at}`);
    await expect.poll(() => refused).toBeGreaterThan(0);

    isTooLittle = false;

    await expect.poll(() => store.health().writable).toBe(true);
    expect((await store.table("Job").get("j0"))?.payload).toHaveLength(100_000);
    await store.close();
  });

  small.it("opens, reads and removes on a disk that is already full", async () => {
    const first = await open();
    for (let at = 0; at < 5; at++) await first.table("Job").insert(makeJob(`j${at}`));
    await first.close();
    try {
      writeFileSync(filler(), Buffer.alloc(SIZE));
    } catch {
      // It took what there was.
    }

    const store = await open();

    expect((await store.table("Job").list()).total).toBe(5);
    const outcome = store.table("Job").insert(makeJob("big", { payload: "x".repeat(2_000_000) }));
    await expect(outcome).rejects.toMatchObject({ type: "storage_error" });
    expect(await store.table("Job").remove("j0")).toBe(true);
    await store.close();
  });

  small.it("opens after a crash on a full disk, reads, and writes once there is space", async () => {
    const first = await open();
    await fill(first);
    // No close: only the lock is released, as by a process that ended.
    const total = (await first.table("Job").list({ limit: 1 })).total;
    await first.close();

    const store = await open();

    expect((await store.table("Job").list({ limit: 1 })).total).toBe(total);
    await store.close();
  });
});
