import { mkdir, open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Replaces a file so that a reader, or a crash, sees either the old or the new one. */
export async function writeAtomic(path: string, text: string, mode = 0o600): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  const temporary = `${path}.${process.pid}.tmp`;
  const file = await open(temporary, "w", mode);
  try {
    await file.writeFile(text);
    // A file left by a crash keeps its own mode unless it is set.
    await file.chmod(mode);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(temporary, path);
}
