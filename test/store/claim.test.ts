import { cpSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FileSystem } from "../../src/core/storage/file-io.ts";
import { findMount } from "../../src/core/storage/file-system.ts";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

let root: string;
let dataDir: string;
let warnings: string[];
const stores: Store[] = [];

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "store-claim-"));
  dataDir = join(root, "data");
  warnings = [];
});
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  rmSync(root, { recursive: true, force: true });
});

async function open(system: FileSystem = { kind: "disk" }): Promise<Store> {
  const store = await openJsonStoreWith({
    tables: CORE_TABLES,
    dataDir,
    io: { ...nodeIo, fileSystem: () => system },
    log: { info() {}, warn: (message) => warnings.push(message), error() {} },
  });
  stores.push(store);
  return store;
}

function journal(): string {
  return readdirSync(dataDir).find((one) => one.startsWith("journal."))!;
}

/** As a program does that writes a file beside it first. */
function replace(name: string, text: string): void {
  writeFileSync(join(dataDir, "new"), text);
  renameSync(join(dataDir, "new"), join(dataDir, name));
}

/** What a lock between two hosts amounts to. */
function removeLocks(): void {
  for (const name of readdirSync(dataDir)) if (name.startsWith("lock.")) rmSync(join(dataDir, name));
}

const insert = (store: Store, id: string) => store.table("Job").insert(makeJob(id));
const refused = (message: string | RegExp) => ({
  type: "storage_error",
  status: 503,
  message: expect.stringMatching(message),
});
const unhealthy = (store: Store) => expect.poll(() => store.health().writable).toBe(false);

describe("a folder that a second host opens", () => {
  it("has everything that the first acknowledged; the first no longer writes and reports the owner", async () => {
    const first = await open();
    await insert(first, "first");
    removeLocks();

    const second = await open();

    await expect(insert(first, "late")).rejects.toMatchObject(refused(/^Process \d+ on .+ took over /));
    expect(first.health()).toMatchObject({
      writable: false,
      error: expect.stringContaining("Stop this process"),
    });
    await insert(second, "second");
    expect((await second.table("Job").ids()).sort()).toEqual(["first", "second"]);
    expect(second.health()).toEqual({ writable: true });
  });

  it("is never written to by the first again, not even at its end", async () => {
    const first = await open();
    await insert(first, "first");
    removeLocks();
    const second = await open();
    await insert(second, "second");
    await expect(insert(first, "late")).rejects.toMatchObject(refused("took over"));
    const manifest = readFileSync(join(dataDir, "MANIFEST.json"), "utf8");

    await first.close();

    expect(readFileSync(join(dataDir, "MANIFEST.json"), "utf8")).toBe(manifest);
    await insert(second, "third");
  });

  it("makes the first unhealthy even without a write", async () => {
    const first = await open();
    await insert(first, "first");
    removeLocks();
    await open();

    await unhealthy(first);
  });

  it("is lost to the first even if file identities are outdated, as on a network", async () => {
    const first = await open({ kind: "network" });
    await insert(first, "first");
    removeLocks();
    const second = await open({ kind: "network" });

    await expect(insert(first, "late")).rejects.toMatchObject(refused("took over"));
    await insert(second, "second");
  });

  it("has no owner after a clean stop, so that version 0.1.0 can read it", async () => {
    const store = await open();
    await insert(store, "first");
    expect(readManifest()).toHaveProperty("owner.token");

    await store.close();

    expect(Object.keys(readManifest())).toEqual(["format", "files", "c"]);
  });
});

describe("a folder that goes away under a running store", () => {
  it.each(["removed", "moved"])("is detected before anything more is acknowledged: %s", async (how) => {
    const store = await open();
    await insert(store, "kept");

    if (how === "removed") rmSync(dataDir, { recursive: true });
    else renameSync(dataDir, join(root, "away"));

    await expect(insert(store, "late")).rejects.toMatchObject(refused("is gone or was replaced"));
    expect(store.health()).toMatchObject({
      writable: false,
      error: expect.stringContaining("restart the service"),
    });
  });

  it.each<[string, () => void]>([
    ["the folder is removed", () => rmSync(dataDir, { recursive: true })],
    ["the folder is moved", () => renameSync(dataDir, join(root, "away"))],
    ["a folder above it is moved", () => renameSync(join(root, "above"), join(root, "elsewhere"))],
    ["the journal is removed", () => rmSync(join(dataDir, journal()))],
    ["the journal is moved", () => renameSync(join(dataDir, journal()), join(dataDir, "old"))],
    ["the manifest is removed", () => rmSync(join(dataDir, "MANIFEST.json"))],
    ["the manifest is replaced", () => replace("MANIFEST.json", "{}")],
    ["the journal is replaced", () => replace(journal(), readFileSync(join(dataDir, journal()), "utf8"))],
  ])("is detected in a folder in which no name has changed for a while: %s", async (_, lose) => {
    dataDir = join(root, "above", "data");
    const store = await open();
    await insert(store, "kept");
    // Longer than a tick of the times that the file system notes.
    await delay(150);
    await insert(store, "confirmed");
    await insert(store, "trusted");

    lose();

    await expect(insert(store, "late")).rejects.toMatchObject({ type: "storage_error" });
    expect(store.health()).toMatchObject({ writable: false });
  });

  it("is detected without a write, even before the first one", async () => {
    const store = await open();
    rmSync(dataDir, { recursive: true });

    await unhealthy(store);
  });

  it("is used again automatically when it comes back as it was", async () => {
    const store = await open();
    await insert(store, "kept");
    renameSync(dataDir, join(root, "away"));
    await expect(insert(store, "late")).rejects.toMatchObject(refused("is gone"));

    renameSync(join(root, "away"), dataDir);

    await expect.poll(() => store.health().writable).toBe(true);
    await insert(store, "after");
    await store.close();
    expect((await (await open()).table("Job").ids()).sort()).toEqual(["after", "kept"]);
  });

  it("does not touch a store that is created in its place, including its lock", async () => {
    const first = await open();
    await insert(first, "kept");
    rmSync(dataDir, { recursive: true });
    const second = await open();
    await insert(second, "new");

    await expect(insert(first, "late")).rejects.toMatchObject(refused("took over"));
    await first.close();

    await expect(open()).rejects.toThrow("is in use by process");
    await insert(second, "more");
    await second.close();
    expect((await (await open()).table("Job").ids()).sort()).toEqual(["more", "new"]);
  });

  it("is given up permanently when a backup is put in its place", async () => {
    const store = await open();
    await insert(store, "first");
    await store.close();
    cpSync(dataDir, join(root, "backup"), { recursive: true });
    const running = await open();
    await insert(running, "second");

    cpSync(join(root, "backup"), dataDir, { recursive: true });

    await expect(insert(running, "late")).rejects.toMatchObject(
      refused("was replaced while the service was running"),
    );
  });

  it.each(["the journal", "the manifest"])("counts as removed without %s", async (what) => {
    const store = await open();
    await insert(store, "kept");
    const name = what === "the manifest" ? "MANIFEST.json" : journal();
    rmSync(join(dataDir, name));

    await expect(insert(store, "late")).rejects.toMatchObject(
      refused(`\\(${name.replaceAll(".", "\\.")} is missing\\)`),
    );
  });
});

describe("where the folder is", () => {
  it("an object store that looks like a folder is refused", async () => {
    await expect(open({ kind: "bucket", name: "gcsfuse" })).rejects.toMatchObject(
      refused("is on gcsfuse, which is an object store"),
    );
  });

  it("the mount that a folder is on is the longest that it is below", () => {
    const mounts = [
      "22 1 0:20 / / rw,relatime - ext4 /dev/vda rw",
      "40 22 0:44 / /mnt/a\\040b rw,nosuid - fuse.gcsfuse my-bucket rw,user_id=0",
      "41 22 0:45 / /mnt/a\\040bc rw shared:1 master:2 - nfs4 host:/export rw",
    ].join("\n");

    expect(findMount(mounts, "/mnt/a b/data")).toBe("fuse.gcsfuse my-bucket");
    expect(findMount(mounts, "/mnt/a bc")).toBe("nfs4 host:/export");
    expect(findMount(mounts, "/srv")).toBe("ext4 /dev/vda");
  });

  it("a missing file that the manifest names is reported with what to do", async () => {
    const store = await open();
    await insert(store, "kept");
    await store.close();
    const name = journal();
    rmSync(join(dataDir, name));

    await expect(open()).rejects.toMatchObject({
      message: expect.stringContaining(
        `${name} is damaged at byte 0: MANIFEST.json names it and it is missing`,
      ),
      detail: expect.stringContaining("backup"),
    });
  });
});

describe("data of version 0.1.0", () => {
  it.each(["stopped", "killed"])("is read and written to: %s", async (how) => {
    cpSync(join(import.meta.dirname, "data-0.1.0", how), dataDir, { recursive: true });

    const store = await open();
    await insert(store, "job-3");
    await store.close();

    const again = await open();
    expect((await again.table("Job").ids()).sort()).toEqual(["job-1", "job-2", "job-3"]);
    expect((await again.table("Job").list({ search: "audit 2" })).items.map(({ id }) => id)).toEqual([
      "job-1",
    ]);
    expect(await again.table("Case").countBy("job_id")).toEqual({ "job-1": 1, "job-2": 1 });
    expect(await again.log("Run").last("job-1")).toBe(1);
    expect(warnings).toEqual([]);
  });
});

function readManifest(): object {
  return JSON.parse(readFileSync(join(dataDir, "MANIFEST.json"), "utf8")) as object;
}
