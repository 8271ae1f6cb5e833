import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { testServer } from "agent-control-service/testing";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { main } from "../../src/cli/main.ts";
import { makeCase, makeJob } from "../../src/core/store/contract/fixtures.ts";
import { sendSnapshot } from "../../src/core/store/engine/snapshot.ts";
import { openJsonStoreWith } from "../../src/core/store/json/json-store.ts";
import { splitJson } from "../../src/core/store/json/split-json.ts";
import {
  backupStore,
  exportStore,
  importStore,
  restoreStore,
  saveBackup,
  verifyStore,
} from "../../src/core/store/maintenance.ts";
import type { Store } from "../../src/core/store/store.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";
import { greeter } from "../_setup.ts";
import { jobContext } from "../http/_jobs.ts";

let root: string;
let dataDir: string;
let to: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "store-backup-"));
  dataDir = join(root, "data");
  to = join(root, "backup");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const open = (folder: string, journalBytes?: number) =>
  openJsonStoreWith({
    tables: CORE_TABLES,
    dataDir: folder,
    log: { info() {}, warn() {}, error() {} },
    ...(journalBytes && { journalBytes }),
  });

async function contentOf(folder: string): Promise<unknown> {
  const store = await open(folder);
  const content = [
    await store.table("Job").list({ sort: "id", limit: 1000 }),
    await store.table("Case").list({ sort: "id", limit: 1000 }),
    await store.log("Run").read("job-1"),
  ];
  await store.close();
  return content;
}

async function fill(store: Store): Promise<void> {
  for (let at = 1; at <= 3; at++) {
    await store.table("Job").insert(makeJob(`job-${at}`, { payload: `"}],{[ ${"ä".repeat(at)} \\` }));
    await store.table("Case").insert(makeCase(`case-${at}`, "job-1"));
    await store.log("Run").append("job-1", { type: "mark", mark: "note", message: `${at}`, at: "" });
  }
  await store.table("Job").remove("job-2");
}

async function svc(
  argv: string[],
  env: Record<string, string> = {},
): Promise<{ code: number; output: string }> {
  const lines: string[] = [];
  const print = (line: string) => void lines.push(line);
  const code = await main(argv, {
    argv,
    self: [],
    cwd: root,
    env,
    print,
    note: print,
    interactive: false,
    platforms: {},
  });
  return { code, output: lines.join("\n") };
}

describe("a backup", () => {
  it("of a stopped service is restored completely", async () => {
    const store = await open(dataDir);
    await fill(store);
    await store.close();

    expect(await svc(["store", "backup", to, "--data-dir", dataDir])).toMatchObject({ code: 0 });
    const restored = join(root, "restored");
    expect(await svc(["store", "restore", to, "--data-dir", restored])).toMatchObject({
      code: 0,
      output: expect.stringContaining("no damage"),
    });

    expect(await contentOf(restored)).toEqual(await contentOf(dataDir));
    expect((await verifyStore(to)).problems).toEqual([]);
  });

  it("of a running service has everything that was acknowledged before, in whole transactions, while the store rotates and compacts", async () => {
    const store = await open(dataDir, 20_000);
    let isOver = false;
    let acknowledged = 0;
    const writing = (async () => {
      for (let at = 0; !isOver; at++) {
        await store.transaction(async (tx) => {
          await tx.insert("Job", makeJob(`j${at}`, { payload: "p".repeat(500) }));
          await tx.insert("Case", makeCase(`c${at}`, `j${at}`));
          if (at > 20) await tx.remove("Job", `j${at - 20}`);
          if (at > 20) await tx.remove("Case", `c${at - 20}`);
        });
        acknowledged = at;
      }
    })();
    for (let round = 0; round < 8; round++) {
      await expect.poll(() => acknowledged).toBeGreaterThan(round * 60 + 30);
      const before = acknowledged;
      const folder = `${to}${round}`;
      await saveBackup(sendSnapshot(await store.snapshot!()), folder);

      const copy = await open(folder);
      const jobs = await copy.table("Job").ids();
      const cases = await copy.table("Case").ids();
      await copy.close();
      expect(cases.map((id) => `j${id.slice(1)}`).sort()).toEqual(jobs.sort());
      expect(Math.max(...jobs.map((id) => Number(id.slice(1))))).toBeGreaterThanOrEqual(before);
      expect(jobs.length).toBeGreaterThan(18);
    }
    isOver = true;
    await writing;
    expect(Number((await store.stats()).details?.compactions)).toBeGreaterThan(0);
    await store.close();
  });

  it("is downloaded over HTTP from the service that has the folder, only with its key", async () => {
    await using server = await testServer({ agents: [greeter], dataDir, store: undefined });
    const job = { job_context: jobContext("j1"), job_fields: { name: "Ada" } };
    expect((await server.request("/agents/greeter/jobs", { method: "POST", json: job })).status).toBe(202);
    writeFileSync(join(dataDir, "address"), server.url);

    const done = await svc(["store", "backup", "backup", "--data-dir", dataDir], {
      SERVICE_API_KEY: server.key,
    });

    expect(done).toMatchObject({ code: 0, output: expect.stringMatching(/backup: \d+ lines in 1 file,/) });
    const copy = await open(to);
    expect(await copy.table("Job").ids()).toEqual(["j1"]);
    await copy.close();
    const refused = await svc(["store", "backup", "other", "--data-dir", dataDir], {
      SERVICE_API_KEY: "wrong-key-wrong-key",
    });
    expect(refused).toMatchObject({ code: 1, output: expect.stringContaining("rejected the API key") });
    expect(existsSync(join(root, "other", "MANIFEST.json"))).toBe(false);
  });

  it("can still be created from a running service whose folder was removed", async () => {
    const store = await open(dataDir);
    await fill(store);
    rmSync(dataDir, { recursive: true });

    await saveBackup(sendSnapshot(await store.snapshot!()), to);

    const copy = await open(to);
    expect(await copy.table("Job").ids({ sort: "id" })).toEqual(["job-1", "job-3"]);
    await copy.close();
    await store.close();
  });

  it("releases the files if it is not read to the end", async () => {
    const store = await open(dataDir);
    await fill(store);
    const open_ = () => readdirSync("/proc/self/fd").length;
    const before = open_();
    const sent = sendSnapshot(await store.snapshot!());
    await sent.next();
    await sent.return();
    await store.close();

    expect(open_()).toBeLessThan(before);
  });
});

describe("a backup, restore or import that is cut short", () => {
  it("leaves a folder that is recognized as incomplete", async () => {
    const store = await open(dataDir);
    await fill(store);
    const snapshot = await store.snapshot!();
    async function* half() {
      for await (const chunk of sendSnapshot(snapshot)) {
        yield chunk.length < 500 ? chunk : chunk.subarray(0, chunk.length - 1);
      }
    }

    await expect(saveBackup(half(), to)).rejects.toThrow("The backup was interrupted");

    for (const work of [
      () => open(to),
      () => restoreStore(to, join(root, "x")),
      () => exportStore(to, join(root, "y")),
    ])
      await expect((async () => work())()).rejects.toThrow("contains an incomplete store");
    await expect(restoreStore(dataDir, to)).rejects.toThrow("is not empty");
    await store.close();
  });

  it("refuses a folder that is not empty, and data that is not a backup", async () => {
    const store = await open(dataDir);
    await fill(store);
    await store.close();
    mkdirSync(to);
    writeFileSync(join(to, "mine"), "");

    await expect(backupStore(dataDir, to)).rejects.toThrow(`${to} is not empty`);
    await expect(restoreStore(join(root, "empty"), join(root, "z"))).rejects.toThrow("does not exist");
    async function* evil() {
      yield Buffer.from(`${JSON.stringify({ files: [{ name: "../../evil.1.jsonl", size: 1 }] })}\nx`);
    }
    await expect(saveBackup(evil(), join(root, "e"))).rejects.toThrow("is not a store backup");
    expect(readdirSync(to)).toEqual(["mine"]);
  });

  it("detects a byte that changed on the way", async () => {
    const store = await open(dataDir);
    await fill(store);
    const snapshot = await store.snapshot!();
    async function* changed() {
      let number = 0;
      for await (const chunk of sendSnapshot(snapshot)) {
        const copy = Buffer.from(chunk);
        if (number++ === 1) copy[500] = copy[500]! ^ 1;
        yield copy;
      }
    }

    await expect(saveBackup(changed(), to)).rejects.toThrow("is damaged");
    await expect(open(to)).rejects.toThrow("contains an incomplete store");
    await store.close();
  });
});

describe("an import", () => {
  it("creates a store from an export", async () => {
    const store = await open(dataDir);
    await fill(store);
    await store.close();
    const exported = join(root, "exported");
    const imported = join(root, "imported");
    expect(await svc(["store", "export", exported, "--data-dir", dataDir])).toMatchObject({ code: 0 });

    expect(await svc(["store", "import", exported, "--data-dir", imported])).toMatchObject({ code: 0 });

    expect(await contentOf(imported)).toEqual(await contentOf(dataDir));
    await exportStore(imported, join(root, "again"));
    for (const name of readdirSync(exported))
      expect(readFileSync(join(root, "again", name), "utf8")).toBe(
        readFileSync(join(exported, name), "utf8"),
      );
  });

  it("accepts edited files, and reports what does not fit", async () => {
    const folder = join(root, "edited");
    mkdirSync(folder);
    const write = (text: string) => writeFileSync(join(folder, "Job.json"), text);
    write(JSON.stringify([makeJob("a"), makeJob("b")]));
    await importStore(folder, dataDir);
    const store = await open(dataDir);
    expect(await store.table("Job").ids({ sort: "id" })).toEqual(["a", "b"]);
    await store.close();

    for (const [text, message] of [
      ['[{"id":"a"},{"id":"a"}]', '"a" occurs twice'],
      ['[{"name":"a"}]', "item 1 has no id"],
      ['[{"id":"a"}', "the end is missing"],
      ['[{"id":"a"}] x', "there is content after the end"],
      ['[{"id" "a"}]', "Job.json cannot be imported"],
    ] as const) {
      write(text);
      const target = mkdtempSync(join(root, "target-"));
      await expect(importStore(folder, target)).rejects.toThrow(message);
      await expect(open(target)).rejects.toThrow("contains an incomplete store");
    }
    await expect(importStore(root, join(root, "n"))).rejects.toThrow("does not contain an export");
  });

  it("reads lists and maps in chunks of any size", async () => {
    const list = [{ id: 'a"\\', x: [1, { y: "]}," }] }, 5, "s,}", null, []];
    const map = { 'k"1,': [1, 2], "k:2": [], ä: ["ü", { z: ":" }] };
    for (const [value, indent] of [
      [list, 2],
      [map, 2],
      [list, 0],
      [map, 0],
      [[], 2],
      [{}, 0],
    ] as const) {
      const bytes = Buffer.from(`${JSON.stringify(value, null, indent)}\n`);
      for (const size of [1, 2, 3, 7, bytes.length]) {
        async function* chunks() {
          for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
        }
        const parts: unknown[] = [];
        for await (const part of splitJson(chunks()))
          parts.push(
            part.key === undefined ? JSON.parse(part.value) : [JSON.parse(part.key), JSON.parse(part.value)],
          );
        expect(parts).toEqual(Array.isArray(value) ? value : Object.entries(value));
      }
    }
  });
});
