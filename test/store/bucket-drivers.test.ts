import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { fileDriver } from "../../src/core/storage/file.ts";
import { gcsDriver } from "../../src/core/storage/gcs.ts";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { s3Driver } from "../../src/core/storage/s3.ts";
import { bucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { type GcsServer, startGcs } from "../storage/gcs-server.ts";
import { type S3Server, startS3 } from "../storage/s3-server.ts";

let s3: S3Server;
let gcs: GcsServer;
beforeAll(async () => {
  s3 = await startS3(["agents"]);
  gcs = await startGcs(["agents"]);
});
afterAll(async () => {
  await s3.close();
  await gcs.close();
});

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "bucket-drivers-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Opens a store on a blank disk. */
async function open(storage: StorageLike): Promise<Store> {
  const log = { info() {}, warn() {}, error() {} };
  const store = await bucketStore(storage)({ tables: CORE_TABLES, dataDir: folder(), log });
  onTestFinished(() => store.close());
  return store;
}

const env = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };
const inS3 = (conditional: boolean, prefix: string) =>
  s3Driver({ bucket: "agents", endpoint: s3.url, region: s3.region, env, conditional, prefix });

it.each<[string, () => StorageLike]>([
  ["S3", () => inS3(true, "slots")],
  ["S3 without conditional writes", () => inS3(false, "marker")],
  [
    "Google Cloud Storage",
    () =>
      gcsDriver({
        ...{ bucket: "agents", endpoint: gcs.url, prefix: "slots" },
        token: async () => ({ token: "ya29.test-token", expires: Number.POSITIVE_INFINITY }),
      }),
  ],
  ["a folder", () => fileDriver({ folder: folder() })],
])(
  "in %s, an owner finds what the one before it acknowledged, and that one stores nothing more",
  async (_, make) => {
    const storage = make();
    const old = await open(storage);
    const ids: string[] = [];
    for (let round = 0; round < 60; round++) {
      await old.table("Job").insert(makeJob(`j${round}`));
      ids.push(`j${round}`);
    }
    const next = await open(storage);
    expect((await next.table("Job").ids()).sort()).toEqual(ids.sort());
    await expect(old.table("Job").insert(makeJob("late"))).rejects.toMatchObject({ type: "storage_error" });
    await next.table("Job").insert(makeJob("after"));
    await next.close();
    const last = await open(storage);
    expect((await last.table("Job").ids()).sort()).toEqual([...ids, "after"].sort());
  },
);
