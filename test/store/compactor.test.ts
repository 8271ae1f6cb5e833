import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { nodeIo } from "../../src/core/storage/node-io.ts";
import { makeJob } from "../../src/core/store/contract/fixtures.ts";
import { createStoreTables } from "../../src/core/store/engine/transactional-store.ts";
import { Compactor } from "../../src/core/store/json/compactor.ts";
import { Contents } from "../../src/core/store/json/contents.ts";
import { FileSet } from "../../src/core/store/json/file-set.ts";
import { Journal } from "../../src/core/store/json/journal.ts";
import { openJsonStore } from "../../src/core/store/json/json-store.ts";
import { loadFiles } from "../../src/core/store/json/load.ts";
import { readManifest } from "../../src/core/store/json/manifest.ts";
import { Reserve } from "../../src/core/store/json/reserve.ts";
import { nodeTimers } from "../../src/core/store/json/timers.ts";
import { CORE_TABLES } from "../../src/core/store/tables.ts";

let dataDir: string;
let warnings: string[];
const log = { info() {}, warn: (message: string) => void warnings.push(message), error() {} };
const limit = 1024 * 1024;

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), "store-compactor-"));
  warnings = [];
});
afterEach(() => rmSync(dataDir, { recursive: true, force: true }));

/** The parts of a store that compacts, over the files in the folder. */
async function openParts(): Promise<{ files: FileSet; compactor: Compactor }> {
  const contents = new Contents(createStoreTables(CORE_TABLES));
  const files = new FileSet({ io: nodeIo, folder: dataDir, log, segments: contents.segments });
  for (const { name, size } of readManifest(nodeIo, dataDir)!.files) files.open(name, size);
  const { last } = await loadFiles(files, contents, undefined);
  const reserve = new Reserve({ io: nodeIo, folder: dataDir, size: 1024, log });
  const journal = new Journal({
    files,
    contents,
    reserve,
    timers: nodeTimers,
    log,
    last,
    limit,
    headroom: { bytes: 1000, after: 3 },
    onCheck() {},
  });
  return { files, compactor: new Compactor({ files, contents, journal, log, limit }) };
}

for (const [what, bytes] of [
  ["more", 1],
  ["less", -1],
] as const) {
  it(`keeps all files if the index is made to point to ${what} of one than was found to be copied`, async () => {
    const store = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
    for (const id of ["a", "b"]) await store.table("Job").insert(makeJob(id));
    await store.close();
    const before = readdirSync(dataDir).filter((name) => name.endsWith(".jsonl"));
    const { files, compactor } = await openParts();
    files.order[0]!.live += bytes;

    await compactor.compact();

    expect(compactor.count).toBe(0);
    expect(warnings).toEqual([expect.stringContaining("would have lost lines")]);
    files.close();
    const again = await openJsonStore({ tables: CORE_TABLES, dataDir, log });
    expect((await again.table("Job").list()).total).toBe(2);
    await again.close();
    expect(readdirSync(dataDir).filter((name) => name.endsWith(".jsonl"))).toEqual(before);
  });
}
