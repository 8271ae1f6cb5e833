// @alone
// @losses
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { requirement } from "../_require.ts";
import { newKey } from "./_key.ts";
import { compile } from "./compile.ts";
import { checkWhatIsLeft, Writer } from "./crash-process.ts";

const ROUNDS = Number(process.env.SVC_POWER_ROUNDS ?? 5);

/** Of a writer whose store is encrypted. */
const SEALED = { CRASH_KEY: newKey() };

const machine = requirement("root", "loop", "cc", "linux");
machine.describe("a power cut", () => {
  let folder: string;
  let disk: string;
  let powerCut: string;
  let shim: string;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "store-power-"));
    disk = join(folder, "mounted");
    mkdirSync(disk);
    powerCut = compile("power-cut.c", folder);
    shim = compile("shim.c", folder, "-shared", "-fPIC");
    execFileSync("truncate", ["-s", "64M", join(folder, "image")]);
    execFileSync("mkfs.ext4", ["-q", join(folder, "image")]);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs a writer on the mounted disk, cuts the power, and mounts the disk again for `check`. */
  async function round(
    env: Record<string, string>,
    check: (writer: Writer, dataDir: string) => Promise<void>,
  ) {
    const mount = () => execFileSync("mount", ["-o", "loop", join(folder, "image"), disk]);
    mount();
    try {
      const kind = env.CRASH_KEY === undefined ? "data" : "sealed";
      const dataDir = join(disk, env.CRASH_FILES === undefined ? kind : "files");
      const writer = await Writer.start(dataDir, env);
      await writer.until(() => writer.acknowledgements >= 40);
      await freeze(writer);
      execFileSync(powerCut, [disk]);
      await writer.kill();
      execFileSync("umount", [disk]);
      mount();
      await check(writer, dataDir);
    } finally {
      execFileSync("umount", [disk]);
    }
  }

  machine.it(
    `${ROUNDS} rounds lose nothing that was acknowledged and tear nothing`,
    async () => {
      for (let count = 0; count < ROUNDS; count++) {
        await round({}, (writer, dataDir) => checkWhatIsLeft(dataDir, writer));
      }
      await round(SEALED, (writer, dataDir) => checkWhatIsLeft(dataDir, writer));
    },
    300_000,
  );

  machine.it(
    `${ROUNDS} rounds lose no file of a job, leave none dangling, and nothing over after a sweep`,
    async () => {
      const env = { CRASH_FILES: "1" };
      for (let count = 0; count < ROUNDS; count++)
        await round(env, (writer, dataDir) => checkWhatIsLeft(dataDir, writer));
    },
    300_000,
  );

  machine.it("without syncs loses what was acknowledged: the test can fail", async () => {
    const env = { LD_PRELOAD: shim, SHIM_DIR: disk, SHIM_EAT: "1" };
    await round(env, async (writer, dataDir) => {
      mkdirSync(dataDir, { recursive: true });
      await expect(checkWhatIsLeft(dataDir, writer)).rejects.toThrow();
    });
  });
});

/** Stops every thread, so that no sync under way can report a success that the cut takes back. */
async function freeze(writer: Writer): Promise<void> {
  const { pid } = writer.process;
  writer.process.kill("SIGSTOP");
  const isStopped = (task: string) =>
    / [Tt] /.test(readFileSync(`/proc/${pid}/task/${task}/stat`, "utf8").replace(/\(.*\)/, ""));
  while (!readdirSync(`/proc/${pid}/task`).every(isStopped))
    await new Promise((resolve) => setTimeout(resolve, 2));
}
