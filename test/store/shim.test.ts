// @alone
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { compile } from "./compile.ts";
import { checkWhatIsLeft, Writer } from "./crash-process.ts";

const EIO = 5;
const ENOSPC = 28;

const machine = requirement("cc", "linux");
machine.describe("a process whose calls to the system fail", () => {
  let folder: string;
  let shim: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "store-shim-"));
    shim = compile("shim.c", folder, "-shared", "-fPIC");
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  const cases: [string, Record<string, string>, boolean][] = [
    ["write fails with EIO", { SHIM_FAIL: `pwrite64:30:${EIO}` }, true],
    [
      "write fails with ENOSPC and taking it back fails too",
      { SHIM_FAIL: `pwrite64:30:${ENOSPC},ftruncate64:2:${EIO}` },
      true,
    ],
    ["sync fails with EIO", { SHIM_FAIL: `fdatasync:12:${EIO}` }, true],
    [
      "two syncs fail, the second while the journal is rewritten",
      { SHIM_FAIL: `fdatasync:12:${EIO},fdatasync:13:${EIO}` },
      true,
    ],
    ["a write that is to be synced fails with EIO", { SHIM_FAIL: `synced:10:${EIO}` }, true],
    ["a write that is to be synced fails with ENOSPC", { SHIM_FAIL: `synced:10:${ENOSPC}` }, true],
    ["the sync of the folder fails", { SHIM_FAIL: `fsync:2:${EIO}` }, true],
    ["replacing the manifest fails", { SHIM_FAIL: `rename:1:${EIO}` }, true],
    ["every write is short", { SHIM_SHORT: "1000" }, false],
  ];
  for (const [title, env, refuses] of cases) {
    machine.it(`${title}: it says so, continues, and loses nothing that was acknowledged`, async () => {
      const dataDir = join(folder, title.replaceAll(" ", "-"));
      mkdirSync(dataDir);
      const writer = await Writer.start(dataDir, { ...env, LD_PRELOAD: shim, SHIM_DIR: dataDir });

      await writer.until(() => writer.acknowledgements >= 100 && (!refuses || writer.refusals.length > 0));
      const before = writer.acknowledgements;
      await writer.until(() => writer.acknowledgements > before + 20);
      await writer.kill();

      await checkWhatIsLeft(dataDir, writer);
      if (refuses) expect(writer.refusals[0]).toMatch(/(A write to the disk failed|The disk is full)/);
      else expect(writer.refusals).toEqual([]);
    });
  }
});
