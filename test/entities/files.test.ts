import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { UPLOAD_KEEP } from "../../src/core/entities/files.ts";
import { FILE_GRACE, linkFile, ownerOf, unlinkFiles } from "../../src/core/entities/job-files.ts";
import type { FileValue } from "../../src/core/models/file.ts";
import { claimFiles, linkClaimed } from "../../src/core/runs/queue/claim-files.ts";
import { azureDriver } from "../../src/core/storage/azure.ts";
import { gcsDriver } from "../../src/core/storage/gcs.ts";
import type { StorageLike } from "../../src/core/storage/open-storage.ts";
import { s3Driver } from "../../src/core/storage/s3.ts";
import { bucketStore } from "../../src/core/store/bucket/bucket-store.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { FileChunks } from "../../src/core/store/files/file-chunks.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { createMemoryStore } from "../../src/core/store/memory-store.ts";
import type { StoreFactory } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { PgliteServer } from "../_pglite.ts";
import { openInSchema } from "../_postgres.ts";
import { requirement } from "../_require.ts";
import { type AzureServer, startAzure } from "../storage/azure-server.ts";
import { type GcsServer, startGcs } from "../storage/gcs-server.ts";
import { type S3Server, startS3 } from "../storage/s3-server.ts";
import { bytesOf, FileParts, LIMITS, sha256, textOf, toFile } from "./_files.ts";

const log = { info() {}, warn() {}, error() {} };
const PDF = { name: "contract.pdf", type: "text/x-contract" };

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), "files-"));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

let s3: S3Server;
let gcs: GcsServer;
let azure: AzureServer;
let pglite: PgliteServer;
beforeAll(async () => {
  s3 = await startS3(["agents"]);
  gcs = await startGcs(["agents"]);
  azure = await startAzure(["agents"]);
  pglite = await PgliteServer.start();
});
afterAll(() => Promise.all([s3.close(), gcs.close(), azure.close(), pglite.close()]));

let prefixes = 0;
const inBucket = (make: (prefix: string) => StorageLike): StoreFactory => {
  return (context) => bucketStore(make(`p${++prefixes}`))(context);
};
const env = { AWS_ACCESS_KEY_ID: "AKIDTEST", AWS_SECRET_ACCESS_KEY: "s3-test-secret" };

filesContract("memory", createMemoryStore);
filesContract("a folder", openJsonStore);
filesContract(
  "a bucket of S3",
  inBucket((prefix) => s3Driver({ bucket: "agents", endpoint: s3.url, region: s3.region, env, prefix })),
);
filesContract(
  "a bucket of Google Cloud Storage",
  inBucket((prefix) =>
    gcsDriver({
      ...{ bucket: "agents", endpoint: gcs.url, prefix },
      token: async () => ({ token: "ya29.test-token", expires: Number.POSITIVE_INFINITY }),
    }),
  ),
);
filesContract(
  "a container of Azure",
  inBucket((prefix) =>
    azureDriver({
      ...{ account: azure.account, container: "agents", endpoint: azure.url, prefix },
      credentials: { key: azure.key },
    }),
  ),
);
filesContract("PGlite", (context) => pglite.open(context));
requirement("postgres").describe("a server", () => filesContract("Postgres", openInSchema));

/** What keeps files must do this, wherever the contents are. */
function filesContract(name: string, openStore: StoreFactory): void {
  const open = async (limits = LIMITS) => {
    const store = await openStore({ tables: CORE_TABLES, dataDir: folder(), log });
    onTestFinished(() => store.close());
    return new FileParts(store, store.contents, limits);
  };
  const use = (jobId: string, limits = LIMITS) => ({
    ...{ job: ownerOf(makeJob(jobId)), origin: "field" as const, limits },
  });
  const link = (parts: FileParts, file: FileValue, jobId = "job-1", limits = LIMITS) =>
    parts.ledger.write((unit) => linkFile(unit, file, use(jobId, limits)));

  describe(`files in ${name}`, () => {
    it("a content is read as it was sent, whole and in ranges, and is stored once", async () => {
      const parts = await open();
      const text = "0123456789".repeat(600_000);
      const one = await parts.files.add(PDF, bytesOf(text.slice(0, 5), text.slice(5)));
      expect(toFile(one)).toEqual({ ...PDF, size: text.length, sha256: sha256(text) });
      const other = await parts.files.add({ ...PDF, name: "copy.pdf" }, bytesOf(text));
      expect(other.sha256).toBe(one.sha256);
      expect((await new FileChunks(parts.storage).list()).size).toBe(1);
      const content = (await parts.files.content(one.sha256!))!;
      expect(content.chunks.length).toBeGreaterThan(1);
      expect((await textOf(parts.files.read(content))) === text).toBe(true);
      const range = { from: 4_194_300, to: 4_194_310 };
      expect(await textOf(parts.files.read(content, range))).toBe(text.slice(range.from, range.to + 1));
    });

    it("an empty file is a file", async () => {
      const parts = await open();
      const empty = await parts.files.add(PDF, bytesOf());
      expect(toFile(empty)).toMatchObject({ size: 0, sha256: sha256("") });
      await link(parts, toFile(empty));
      expect(await textOf(parts.files.read((await parts.files.content(sha256("")))!))).toBe("");
      await parts.sweepAll();
      expect(await parts.problems()).toEqual([]);
    });

    it("a content is kept while a job names it, and removed with the last one", async () => {
      const parts = await open();
      const file = toFile(await parts.files.add(PDF, bytesOf("a contract")));
      await link(parts, file, "job-1");
      await link(parts, { ...file, name: "again.pdf" }, "job-1");
      await link(parts, file, "job-2");
      expect((await parts.files.list("job-1")).map(({ name }) => name)).toEqual([
        "contract.pdf",
        "again.pdf",
      ]);
      await parts.sweepAll();
      await parts.ledger.write((unit) => unlinkFiles(unit, "job-1"));
      await parts.sweepAll();
      expect(await parts.problems()).toEqual([]);
      const { content } = await parts.files.ofJob("job-2", file.sha256);
      expect(await textOf(parts.files.read(content))).toBe("a contract");

      await parts.ledger.write((unit) => unlinkFiles(unit, "job-2"));
      await expect(parts.files.ofJob("job-2", file.sha256)).rejects.toMatchObject({ type: "not_found" });
      // Who reads it now reads it to its end.
      await parts.sweep.run({ isSearch: true });
      expect(await textOf(parts.files.read(content))).toBe("a contract");
      parts.now += FILE_GRACE + 1;
      await parts.sweep.run({ isSearch: false });
      expect((await new FileChunks(parts.storage).list()).size).toBe(0);
      expect(await parts.problems()).toEqual([]);
    });

    it("a content that an upload still names is kept when the last job that names it is removed", async () => {
      const parts = await open();
      const file = toFile(await parts.files.add(PDF, bytesOf("a contract")));
      await link(parts, file, "job-1");
      await parts.files.add(PDF, bytesOf("a contract"));
      await parts.ledger.write((unit) => unlinkFiles(unit, "job-1"));
      parts.now += FILE_GRACE + 1;
      await parts.sweep.run({ isSearch: true });
      await link(parts, file, "job-2");
      const { content } = await parts.files.ofJob("job-2", file.sha256);
      expect(await textOf(parts.files.read(content))).toBe("a contract");
      expect(await parts.problems()).toEqual([]);
    });

    it("an upload that no job names is removed after a day, with its content", async () => {
      const parts = await open();
      const upload = await parts.files.add(PDF, bytesOf("unused"));
      const begun = await parts.files.begin({ ...PDF, length: 100 });
      await parts.files.append(begun.id, 0, bytesOf("the first part"));
      parts.now += UPLOAD_KEEP - 1000;
      await parts.sweep.run({ isSearch: true });
      expect((await parts.files.find(upload.id)).sha256).toBe(sha256("unused"));
      await parts.sweepAll();
      await expect(parts.files.find(upload.id)).rejects.toMatchObject({ type: "not_found" });
      await expect(link(parts, toFile(upload))).rejects.toMatchObject({ type: "not_found" });
      await expect(parts.files.append(begun.id, 14, bytesOf("more"))).rejects.toMatchObject({
        type: "not_found",
      });
      expect((await new FileChunks(parts.storage).list()).size).toBe(0);
      expect(await parts.problems()).toEqual([]);
    });

    it("an upload that was cut continues from what arrived, and a second sender of it is refused", async () => {
      const parts = await open();
      const { id } = await parts.files.begin({ ...PDF, length: 10 });
      const cut = async function* () {
        yield Buffer.from("0123");
        throw new Error("the connection was lost");
      };
      await expect(parts.files.append(id, 0, cut())).rejects.toThrow("the connection was lost");
      const { received } = await parts.files.find(id);
      expect(received).toBe(4);
      await expect(parts.files.append(id, 0, bytesOf("0123"))).rejects.toMatchObject({
        status: 409,
        headers: { "upload-offset": "4" },
      });
      const [one, other] = await Promise.allSettled([
        parts.files.append(id, 4, bytesOf("456789")),
        parts.files.append(id, 4, bytesOf("abcdef")),
      ]);
      const winner = one.status === "fulfilled" ? "0123456789" : "0123abcdef";
      expect([one.status, other.status].sort()).toEqual(["fulfilled", "rejected"]);
      expect((await parts.files.find(id)).sha256).toBe(sha256(winner));
      await link(parts, toFile(await parts.files.find(id)));
      await parts.sweepAll();
      expect(await parts.problems()).toEqual([]);
    });

    it("an upload whose last part was stored and not finished is finished by the next request", async () => {
      const parts = await open();
      const { id } = await parts.files.begin({ ...PDF, length: 4 });
      const table = parts.store.table("FileUpload");
      const chunk = await new FileChunks(parts.storage).put(
        (await table.get(id))!.place,
        Buffer.from("abcd"),
      );
      await table.change(id, (row) => ({ ...row, received: 4, chunks: [chunk] }));
      expect((await parts.files.completed(id)).sha256).toBe(sha256("abcd"));
    });

    it("more than the limits allow is refused, and leaves nothing", async () => {
      const limits = { file: 10, job: 15, workspace: 25 };
      const parts = await open(limits);
      await expect(parts.files.add(PDF, bytesOf("12345", "678901"))).rejects.toMatchObject({
        type: "payload_too_large",
      });
      await expect(parts.files.begin({ ...PDF, length: 11 })).rejects.toMatchObject({
        type: "payload_too_large",
      });
      const [a, b, c] = [
        toFile(await parts.files.add(PDF, bytesOf("aaaaaaaaaa"))),
        toFile(await parts.files.add(PDF, bytesOf("bbbbb"))),
        toFile(await parts.files.add(PDF, bytesOf("c"))),
      ];
      await link(parts, a, "job-1", limits);
      await link(parts, b, "job-1", limits);
      await expect(link(parts, c, "job-1", limits)).rejects.toThrow(/more than 15 bytes/);
      await link(parts, a, "job-2", limits);
      await expect(link(parts, c, "job-3", limits)).rejects.toThrow(/more than 25 bytes/);
      await parts.ledger.write((unit) => unlinkFiles(unit, "job-2"));
      await link(parts, c, "job-3", limits);
      await parts.sweepAll();
      expect(await parts.problems()).toEqual([]);
    });

    it("who sees only a part can leave few uploads that no job uses", async () => {
      const parts = await open({ ...LIMITS, job: 100 });
      const own = { ...PDF, access: "clerk" };
      const refused = { type: "rate_limited", status: 429 };
      const first = await parts.files.add(own, bytesOf("a".repeat(60)));
      await expect(parts.files.begin({ ...own, length: 41 })).rejects.toMatchObject(refused);
      await expect(parts.files.add(own, bytesOf("a".repeat(41)))).rejects.toMatchObject(refused);
      await parts.files.begin({ ...own, length: 30 });
      // Several at the same time count each other.
      const both = await Promise.allSettled([1, 2].map((n) => parts.files.add(own, bytesOf(`${n}234567`))));
      expect(both.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      // Others are not concerned.
      await parts.files.add({ ...own, access: "other" }, bytesOf("b".repeat(60)));
      await parts.files.add(PDF, bytesOf("c".repeat(1000)));

      const fields = [{ name: "contract", field_type: "FileField" }] as never;
      const sent = { contract: { upload: first.id } };
      const job = { job: ownerOf(makeJob("job-1")), origin: "field" } as const;
      const claimed = await claimFiles(parts.files, fields, sent, { owner: "clerk" });
      await parts.ledger.write((unit) => linkClaimed(unit, parts.files, claimed, job));
      await parts.files.begin({ ...own, length: 60 });
      await parts.sweepAll();
      expect(await parts.problems()).toEqual([]);

      await parts.ledger.write(async ({ tx, now }) => {
        for (let n = 0; n < 1000; n++)
          await tx.insert("FileUpload", {
            ...{ ...own, id: `upload-${n}`, place: `place-${n}`, length: 0, received: 0, chunks: [] },
            ...{ sha256: null, job_id: null, touched_at: now },
          });
      });
      await expect(parts.files.begin({ ...own, length: 0 })).rejects.toThrow("1000 uploads that no job uses");
      await parts.files.discard("upload-7");
      await parts.files.begin({ ...own, length: 0 });
    });

    it("a content that is linked while it would be removed is kept, or the link is refused", async () => {
      const parts = await open();
      for (let round = 0; round < 10; round++) {
        const file = toFile(await parts.files.add(PDF, bytesOf(`content ${round}`)));
        await link(parts, file, "old");
        await parts.store
          .table("FileUpload")
          .list({ limit: 10 })
          .then(async ({ items }) => {
            for (const { id } of items) await parts.files.discard(id);
          });
        const [linked] = await Promise.allSettled([
          link(parts, file, `job-${round}`),
          parts.ledger.write((unit) => unlinkFiles(unit, "old")),
        ]);
        const there = await parts.files.content(file.sha256);
        expect(there !== undefined).toBe(linked.status === "fulfilled");
      }
      await parts.sweepAll();
      expect(await parts.problems()).toEqual([]);
    });

    it("chunks that a crash has left are removed, those of an upload under way are not", async () => {
      const parts = await open();
      const chunks = new FileChunks(parts.storage);
      await chunks.put("0".repeat(32), Buffer.from("of nobody"));
      const { id, place } = await parts.files.begin({ ...PDF, length: 100 });
      await chunks.put(place, Buffer.from("not noted yet"));
      const { orphans } = await parts.sweep.run({ isSearch: true });
      expect(orphans).toBe(1);
      expect([...(await chunks.list()).keys()]).toEqual([place]);
      await parts.files.discard(id);
      expect((await chunks.list()).size).toBe(0);
    });

    it("a content that is damaged is refused, not given out", async () => {
      const parts = await open();
      const { sha256: id } = await parts.files.add(PDF, bytesOf("as it was"));
      const content = (await parts.files.content(id!))!;
      const [key] = await parts.storage.getKeys("svc-files");
      await parts.storage.setItemRaw(key!, Buffer.from("not so it"));
      await expect(textOf(parts.files.read(content))).rejects.toMatchObject({ type: "storage_error" });
    });
  });
}
