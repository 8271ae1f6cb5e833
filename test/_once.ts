import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const RUN = "SVC_TEST_RUN";
const FOLDERS = "svc-run-";

/**
 * Opens a folder for what all test files of a run share, and for all temporary files, those of vitest too: it is removed
 * with the process, and what a killed run left is removed by the next one. Called by vitest.config.ts.
 */
export function openRun(): void {
  // Each project of the configuration reads it.
  if (process.env[RUN] !== undefined) return;
  const place = tmpdir();
  removeAbandoned(place);
  const folder = mkdtempSync(join(place, `${FOLDERS}${process.pid}-`));
  // Where the tests run as root, Postgres runs as another user in a folder below.
  chmodSync(folder, 0o711);
  process.env[RUN] = folder;
  process.env.TMPDIR = folder;
  process.once("exit", () => {
    try {
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
    } catch {
      // A process that is about to end still writes: the next run removes it.
    }
  });
  // Without this, the process ends without an exit event.
  process.once("SIGTERM", () => process.exit(143));
}

/** Removes the folders of runs whose process is gone. */
function removeAbandoned(place: string): void {
  for (const name of readdirSync(place)) {
    const pid = name.startsWith(FOLDERS) ? Number.parseInt(name.slice(FOLDERS.length), 10) : 0;
    if (pid > 0 && !isAlive(pid)) rmSync(join(place, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

/** A new folder on a disk, also where all other temporary files are in memory. */
export function diskFolder(prefix: string): string {
  return mkdtempSync(join(process.env.SVC_DISK || tmpdir(), prefix));
}

/**
 * Makes something that several test files need, in a folder of its own: whichever file asks first makes it, all others
 * wait and get the same folder. They may only read it.
 */
export async function once(name: string, make: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(process.env[RUN]!, "shared", name);
  const ended = `${folder}.ended`;
  if (claim(folder)) {
    const failure = await make(folder).then(
      () => "",
      (error: unknown) => String(error),
    );
    writeFileSync(`${ended}.new`, failure);
    renameSync(`${ended}.new`, ended);
  }
  while (!existsSync(ended)) await delay(100);
  const failure = readFileSync(ended, "utf8");
  if (failure !== "") throw new Error(`${name} could not be made: ${failure}`);
  return folder;
}

function claim(folder: string): boolean {
  try {
    mkdirSync(dirname(folder), { recursive: true });
    mkdirSync(folder);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") return false;
    throw error;
  }
}
