// @long
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { azureDriver } from "../../src/core/storage/azure.ts";
import { gcsDriver } from "../../src/core/storage/gcs.ts";
import { s3Driver } from "../../src/core/storage/s3.ts";
import type { StorageDriver } from "../../src/core/storage/storage-driver.ts";
import { bucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { makeEntry, makeJob } from "../../src/core/store/contract/fixtures.ts";
import type { Store, StoreFactory } from "../../src/core/store/store.ts";
import { storeContract } from "../../src/core/store/store-contract.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { shareOf } from "../_share.ts";
import { type AzureServer, startAzure } from "./azure-server.ts";
import { type GcsServer, startGcs } from "./gcs-server.ts";
import { cutOff, type ObjectServer, type Seen } from "./object-server.ts";
import { type S3Server, startS3 } from "./s3-server.ts";

let s3: S3Server;
let gcs: GcsServer;
let azure: AzureServer;
beforeAll(async () => {
  s3 = await startS3(["agents"]);
  gcs = await startGcs(["agents"]);
  azure = await startAzure(["agents"]);
});
afterAll(async () => {
  await s3.close();
  await gcs.close();
  await azure.close();
});

/** A store repeats what a driver gives up after this time. */
const SHORT = 500;
const timeout = 30_000;
const toS3 = (prefix: string, patience: number, conditional: boolean) =>
  s3Driver({
    ...{ bucket: "agents", prefix, endpoint: s3.url, region: s3.region, conditional, timeout, patience },
    env: { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" },
  });

const PROVIDERS = [
  {
    name: "S3",
    server: () => s3 as ObjectServer,
    open: (prefix: string, patience: number) => toS3(prefix, patience, true),
  },
  {
    name: "a service like S3, without conditional writes",
    server: () => s3 as ObjectServer,
    open: (prefix: string, patience: number) => toS3(prefix, patience, false),
  },
  {
    name: "Google Cloud Storage",
    server: () => gcs as ObjectServer,
    open: (prefix: string, patience: number): StorageDriver =>
      gcsDriver({
        ...{ bucket: "agents", prefix, endpoint: gcs.url, timeout, patience },
        token: async () => ({ token: "ya29.test-token", expires: Number.POSITIVE_INFINITY }),
      }),
  },
  {
    name: "Azure Blob Storage",
    server: () => azure as ObjectServer,
    open: (prefix: string, patience: number): StorageDriver =>
      azureDriver({
        ...{ account: azure.account, container: "agents", prefix, endpoint: azure.url, timeout, patience },
        credentials: { key: azure.key },
      }),
  },
];

for (const { name, open } of shareOf(PROVIDERS, 4)) {
  const prefixOf = (dataDir: string) => dataDir.slice(1);
  const factory: StoreFactory = (context) => bucketStore(open(prefixOf(context.dataDir), SHORT))(context);
  storeContract({ describe, it, persistent: true, name: `a store in ${name}`, open: factory });
}

let stores = 0;
/** Opens the store of a prefix on a blank disk. */
async function openStore(driver: StorageDriver): Promise<Store> {
  const dataDir = mkdtempSync(join(tmpdir(), "svc-buckets-"));
  const log = { info() {}, warn() {}, error() {} };
  const store = await bucketStore(driver)({ tables: CORE_TABLES, dataDir, log });
  onTestFinished(async () => {
    await store.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return store;
}

describe.each(shareOf(PROVIDERS, 4))("a store in $name that fails", ({ server, open }) => {
  const prefix = () => `faults/${++stores}`;
  const changes = (kind: Seen["kind"]) => kind === "write" || kind === "create";

  it("stores each write once, through throttling, errors, cuts and truncation, and opens elsewhere with all", async () => {
    const place = prefix();
    const store = await openStore(open(place, 60_000));
    const faults = [
      async () => ({ status: 429, headers: { "retry-after": "0" } }),
      async () => ({ status: 503, headers: { "retry-after": "0" } }),
      async () => ({ status: 500 }),
      async () => undefined,
      async (_: Seen, proceed: () => Promise<unknown>) => void (await proceed()) as undefined,
    ];
    let requests = 0;
    const { buckets } = server();
    buckets.fault = (seen, proceed) => {
      requests += 1;
      if (requests % 2 === 0) return undefined;
      if (seen.kind === "read") return proceed().then(cutOff);
      return faults[Math.floor(requests / 2) % faults.length]!(seen, proceed);
    };
    onTestFinished(() => {
      buckets.fault = undefined;
    });

    for (let n = 0; n < 12; n++) {
      await store.table("Job").insert(makeJob(`j${n}`));
      await store.log("Run").append("j0", makeEntry(`${n}`));
    }
    const other = await openStore(open(place, 60_000));

    expect(await other.table("Job").countBy("status")).toEqual({ in_progress: 12 });
    expect(await other.log("Run").last("j0")).toBe(12);
  });

  it.each([
    [
      "full",
      (server: ObjectServer) => {
        server.buckets.full = true;
      },
      "is full",
    ],
    [
      "denied",
      (server: ObjectServer) => void server.buckets.denied.add("write").add("create"),
      "refused the request",
    ],
    [
      "unreachable",
      (server: ObjectServer) => {
        server.buckets.fault = ({ kind }) => (changes(kind) ? Promise.resolve(undefined) : undefined);
      },
      "does not respond as it should",
    ],
  ])("is unhealthy while it is %s, says so to callers, and continues by itself", async (_, fail, says) => {
    const store = await openStore(open(prefix(), SHORT));
    await store.table("Job").insert(makeJob("before"));
    const { buckets } = server();
    const recover = () => {
      buckets.fault = undefined;
      buckets.full = false;
      buckets.denied.clear();
    };
    onTestFinished(recover);

    fail(server());
    const waiting = store.table("Job").insert(makeJob("waits"));
    await expect
      .poll(() => store.health())
      .toMatchObject({ writable: false, error: expect.stringContaining(says) });
    await expect(store.table("Job").insert(makeJob("refused"))).rejects.toMatchObject({
      type: "storage_error",
    });
    expect(await store.table("Job").get("before")).toMatchObject({ id: "before" });
    recover();
    await waiting;

    expect(store.health()).toEqual({ writable: true });
    expect(await store.table("Job").ids({ sort: "id" })).toEqual(["before", "waits"]);
  });

  it("does what the provider's contract allows, and no more", () => {
    expect(server().buckets.violations).toEqual([]);
  });
});
