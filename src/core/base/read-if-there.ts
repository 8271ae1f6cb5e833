import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";

/** The text of a file, or undefined if it does not exist. */
export function readIfThere(path: string): Promise<string | undefined> {
  return readFile(path, "utf8").catch(unlessMissing);
}

/** The text of a file, or undefined if it does not exist, synchronously. */
export function readIfThereSync(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    return unlessMissing(error);
  }
}

function unlessMissing(error: unknown): undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
}
