import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import type { LogEntry } from "./log-entry.ts";
import { parseLog } from "./parse-log.ts";

/** How far each file has been read: bytes and lines. */
export type Offsets = Readonly<Record<string, { readonly bytes: number; readonly lines: number }>>;

export interface NewLines {
  readonly entries: LogEntry[];
  readonly unknown: string[];
  readonly offsets: Offsets;
}

/** Reads what was added to the `.log` files of a folder since the last time; a file that shrank was rotated. */
export async function readNewLines(folder: string, since: Offsets): Promise<NewLines> {
  const result = { entries: [] as LogEntry[], unknown: [] as string[], offsets: { ...since } };
  for (const name of (await readdir(folder)).filter((one) => one.endsWith(".log")).sort()) {
    const file = await open(join(folder, name));
    try {
      const { size } = await file.stat();
      const before = since[name] ?? { bytes: 0, lines: 0 };
      const from = before.bytes <= size ? before : { bytes: 0, lines: 0 };
      const buffer = Buffer.alloc(size - from.bytes);
      await file.read(buffer, 0, buffer.length, from.bytes);
      // The last line may be incomplete.
      const whole = buffer.subarray(0, buffer.lastIndexOf("\n") + 1).toString("utf8");
      const parsed = parseLog(whole, name, from.lines + 1);
      result.entries.push(...parsed.entries);
      result.unknown.push(...parsed.unknown);
      const lines = from.lines + whole.split("\n").length - 1;
      result.offsets[name] = { bytes: from.bytes + Buffer.byteLength(whole), lines };
    } finally {
      await file.close();
    }
  }
  return result;
}
