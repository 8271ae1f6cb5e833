import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

const RUN = "SVC_TEST_RUN";

/**
 * Set up by vitest once for all files: a folder for what they share, and for all temporary files, so that also a test
 * that was cut short leaves nothing.
 */
export default function openRun(): (() => void) | undefined {
  // Each project of the configuration asks for it.
  if (process.env[RUN] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), "svc-run-"));
  // Where the tests run as root, Postgres runs as another user in a folder below.
  chmodSync(folder, 0o711);
  process.env[RUN] = folder;
  process.env.TMPDIR = folder;
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
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
