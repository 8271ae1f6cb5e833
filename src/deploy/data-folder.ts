import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** What a folder with these file names is: a service's data, its keys, or neither. */
export type ServiceFolder = "data" | "keys" | undefined;

const KEYS = ["api-key", "rsa-private-key.pem"];
const LINES_FILE = /^[A-Za-z][A-Za-z0-9_-]*\.\d+\.jsonl$/;

/**
 * Recognizes a service's data folder by its manifest, whatever the folder's name, and a folder with its keys.
 */
export async function serviceFolder(folder: string, names: readonly string[]): Promise<ServiceFolder> {
  if (names.includes("MANIFEST.json") && (await isStore(folder, names))) return "data";
  return KEYS.some((name) => names.includes(name)) ? "keys" : undefined;
}

async function isStore(folder: string, names: readonly string[]): Promise<boolean> {
  // A damaged manifest still counts as one.
  if (names.some((name) => LINES_FILE.test(name))) return true;
  try {
    const manifest = JSON.parse(await readFile(join(folder, "MANIFEST.json"), "utf8")) as Record<
      string,
      unknown
    >;
    return typeof manifest.format === "number" && Array.isArray(manifest.files);
  } catch (error) {
    if (error instanceof SyntaxError || (error as NodeJS.ErrnoException).code === "EISDIR") return false;
    throw error;
  }
}
