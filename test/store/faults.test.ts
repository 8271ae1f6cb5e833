import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StoreIo } from "../../src/core/storage/file-io.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { FaultyIo, systemError } from "./faulty-io.ts";

let dataDir: string;
let faulty: FaultyIo;
let warnings: { message: string; fields: Record<string, unknown> | undefined }[];
let errors: string[];

beforeEach(() => {
  errors = [];
  dataDir = mkdtempSync(join(tmpdir(), "store-faults-"));
  faulty = new FaultyIo();
  warnings = [];
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

const open = (journalBytes?: number): Promise<Store> =>
  openJsonStoreWith({
    tables: CORE_TABLES,
    dataDir,
    io: faulty.io,
    log: {
      info() {},
      warn: (message, fields) => warnings.push({ message, fields }),
      error: (message) => errors.push(message),
    },
    ...(journalBytes === undefined ? {} : { journalBytes }),
  });

describe("a call to the disk that fails", () => {
  const calls: [keyof StoreIo, string][] = [
    ["write", "EIO"],
    ["write", "ENOSPC"],
    ["sync", "EIO"],
    ["sync", "ENOSPC"],
    ["writeSynced", "EIO"],
    ["writeSynced", "ENOSPC"],
  ];
  for (const [call, code] of calls) {
    it(`refuses every waiting write when ${call} fails with ${code}, keeps what was there, and continues automatically`, async () => {
      faulty.hasSynced = call === "writeSynced";
      const store = await open();
      await store.table("Job").insert(makeJob("kept"));
      faulty.failOnce(call, code);

      const writes = await Promise.allSettled(
        Array.from({ length: 5 }, (_, at) => store.table("Job").insert(makeJob(`lost${at}`))),
      );

      for (const write of writes) expect(write).toMatchObject({ reason: { type: "storage_error" } });
      expect((await store.table("Job").list()).items.map((job) => job.id)).toEqual(["kept"]);
      await store.table("Job").insert(makeJob("after"));
      expect(store.health().writable).toBe(true);
      await store.close();
      const again = await open();
      expect((await again.table("Job").list({ sort: "id" })).items.map((job) => job.id)).toEqual([
        "after",
        "kept",
      ]);
      await again.close();
    });
  }

  for (const call of ["open", "rename", "syncFolder", "write"] as const) {
    it(`leaves nobody waiting when a new journal cannot be started because ${call} fails`, async () => {
      const store = await open(600);
      for (let at = 0; at < 5; at++) {
        faulty.fault = () => undefined;
        await store.table("Job").insert(makeJob(`kept${at}`));
        faulty.failOnce(call, "EMFILE");
        const outcome = await store
          .table("Job")
          .insert(makeJob(`refused${at}`))
          .then(
            () => "stored",
            (error: { type: string }) => error.type,
          );
        expect(outcome).toBe("storage_error");
      }
      faulty.fault = () => undefined;
      await store.table("Job").insert(makeJob("last"));
      await store.close();
      const again = await open();
      const ids = (await again.table("Job").list({ sort: "id" })).items.map((job) => job.id);
      expect(ids).toEqual(["kept0", "kept1", "kept2", "kept3", "kept4", "last"]);
      await again.close();
    });
  }

  it("reports in its health what is wrong and what to do, while it lasts", async () => {
    const store = await open();
    await store.table("Job").insert(makeJob("kept"));
    faulty.fault = (call) => (call === "sync" ? Object.assign(new Error("bad"), { code: "EIO" }) : undefined);

    await expect(store.table("Job").insert(makeJob("lost"))).rejects.toMatchObject({ type: "storage_error" });

    expect(store.health()).toMatchObject({
      writable: false,
      error: expect.stringContaining("Check the disk"),
    });
    expect(await store.table("Job").get("kept")).toBeDefined();
    faulty.fault = () => undefined;
    await expect.poll(() => store.health().writable).toBe(true);
    expect(await store.table("Job").get("lost")).toBeUndefined();
    await store.close();
  });

  for (const call of ["write", "sync", "writeSynced"] as const) {
    for (const code of ["ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "EPERM"]) {
      it(`cannot be written to, and logs it once, from a ${call} that failed with ${code} until one succeeds`, async () => {
        faulty.hasSynced = call === "writeSynced";
        const store = await open();
        await store.table("Job").insert(makeJob("kept"));
        const insert = (id: string) => store.table("Job").insert(makeJob(id));
        const failing = call === "write" ? ["write"] : ["write", "sync", "writeSynced"];
        faulty.fault = (name) => (failing.includes(name) ? systemError(code) : undefined);

        for (let nth = 0; nth < 3; nth++) {
          await expect(insert(`lost${nth}`)).rejects.toMatchObject({ type: "storage_error" });
          expect(store.health().writable).toBe(false);
        }
        faulty.fault = () => undefined;

        await expect.poll(() => store.health().writable).toBe(true);
        expect(errors).toEqual([expect.stringMatching(/^Store: /)]);
        await insert("after");
        await store.close();
      });
    }
  }

  for (const call of ["sync", "writeSynced"] as const) {
    it(`does not claim success after a failed ${call} before the journal is a new file`, async () => {
      faulty.hasSynced = call === "writeSynced";
      const store = await open();
      await store.table("Job").insert(makeJob("kept"));
      const before = journals();
      faulty.failOnce(call, "EIO");
      await expect(store.table("Job").insert(makeJob("lost"))).rejects.toThrow();

      await store.table("Job").insert(makeJob("after"));

      expect(journals()).not.toEqual(before);
      await store.close();
    });
  }

  it.each([false, true])(
    "writes that the system accepts only in parts are stored completely (synced: %s)",
    async (has) => {
      faulty.shortWrites = 7;
      faulty.hasSynced = has;
      const store = await open();
      await store.table("Job").insert(makeJob("a", { payload: "x".repeat(10_000) }));
      await store.close();
      const again = await open();
      expect((await again.table("Job").get("a"))?.payload).toBe("x".repeat(10_000));
      await again.close();
    },
  );
});

describe("damaged files", () => {
  const fill = async (close = true): Promise<Store> => {
    const store = await open();
    for (const id of ["a", "b", "c"]) await store.table("Job").insert(makeJob(id));
    if (close) await store.close();
    return store;
  };

  it("a damaged line is refused with file, line and byte", async () => {
    await fill();
    const [name] = journals() as [string];
    const bytes = readFileSync(join(dataDir, name));
    const at = bytes.indexOf('"name":"Job b"', bytes.indexOf('"d":{"id":"b"'));
    bytes[at + 10] = bytes[at + 10]! ^ 1;
    writeFileSync(join(dataDir, name), bytes);

    await expect(open()).rejects.toThrow(new RegExp(`${name} is damaged at line 3, byte \\d+`));
  });

  it("a truncated last line is set aside with a warning", async () => {
    await crash();
    const [name] = journals() as [string];
    const bytes = readFileSync(join(dataDir, name));
    writeFileSync(join(dataDir, name), bytes.subarray(0, bytes.length - 20));

    const store = await open();

    expect((await store.table("Job").list({ sort: "id" })).items.map((job) => job.id)).toEqual(["a", "b"]);
    expect(warnings).toMatchObject([{ fields: { file: name, byte: expect.any(Number) } }]);
    expect(readdirSync(dataDir).some((file) => file.endsWith(".torn"))).toBe(true);
    await store.close();
  });

  it("a missing file is named", async () => {
    await fill();
    const [name] = journals() as [string];
    rmSync(join(dataDir, name));

    await expect(open()).rejects.toThrow(name);
  });

  it("a missing manifest does not make an empty store", async () => {
    await fill();
    rmSync(join(dataDir, "MANIFEST.json"));

    await expect(open()).rejects.toThrow("MANIFEST.json is missing");
  });

  it("files of other programs are not changed", async () => {
    writeFileSync(join(dataDir, "events.1.jsonl"), '{"mine":1}\n');
    await fill();
    const again = await open();
    await again.close();

    expect(readFileSync(join(dataDir, "events.1.jsonl"), "utf8")).toBe('{"mine":1}\n');
  });

  /** Leaves a folder as a process does that ends without closing its store. */
  async function crash(): Promise<void> {
    await fill(false).then(async (store) => {
      const files = readdirSync(dataDir).map((name) => [name, tryRead(join(dataDir, name))] as const);
      await store.close();
      for (const name of readdirSync(dataDir)) rmSync(join(dataDir, name));
      for (const [name, bytes] of files) if (bytes !== undefined) writeFileSync(join(dataDir, name), bytes);
    });
  }
});

function tryRead(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch {
    return undefined;
  }
}

function journals(): string[] {
  return readdirSync(dataDir).filter((name) => /^journal\.\d+\.jsonl$/.test(name));
}
