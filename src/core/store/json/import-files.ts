import { storageError } from "../storage-error.ts";
import { FileSet } from "./file-set.ts";
import type { StoreIo } from "./io.ts";
import { LineBuffer } from "./line.ts";
import { splitJson } from "./split-json.ts";
import { TableWriter } from "./table-writer.ts";

const LIMIT = 64 * 1024 * 1024;

/** A file that an export wrote: entities of a table as a list, or entries of a log by key as a map. */
export interface ExportedFile {
  /** Table or log. */
  readonly name: string;
  readonly file: string;
  read(): AsyncIterable<Uint8Array>;
}

/**
 * Writes the entities and entries of exported files as lines; the folder must be empty except for the marker
 * file.
 */
export async function importFiles(
  io: StoreIo,
  folder: string,
  exported: readonly ExportedFile[],
): Promise<{ name: string; count: number }[]> {
  const files = new FileSet({ io, folder, log: { info() {}, warn() {}, error() {} }, segments: new Map() });
  files.claim.seize();
  const counts: { name: string; count: number }[] = [];
  const segments = [];
  let last = 0;
  for (const { name, file, read } of exported) {
    const writer = new TableWriter(files, name, LIMIT);
    const ids = new Set<string>();
    const add = (id: string, rest: string, body: string) => {
      const lines = new LineBuffer();
      const s = ++last;
      lines.add(`{"s":${s},"k":0,"n":0,"t":${JSON.stringify(name)},"id":${JSON.stringify(id)}${rest},"d":`, [
        body,
      ]);
      writer.add(lines.bytes().subarray(0, lines.length - 1), s);
    };
    let count = 0;
    for await (const { key, value } of readParts(file, read())) {
      count++;
      const id = key ?? (value as { id?: unknown } | null)?.id;
      if (typeof id !== "string") throw invalid(file, `item ${count} has no id`);
      if (ids.has(id)) throw invalid(file, `"${id}" occurs twice`);
      ids.add(id);
      if (key === undefined) add(id, "", JSON.stringify(value));
      else if (!Array.isArray(value)) throw invalid(file, `"${id}" is not a list of entries`);
      else
        for (const [at, entry] of value.entries()) add(id, `,"i":${at + 1},"ix":{}`, JSON.stringify(entry));
    }
    await writer.finish();
    segments.push(...writer.segments);
    counts.push({ name, count });
  }
  await io.syncFolder(folder);
  await files.publish(segments, undefined);
  await files.release();
  files.close();
  return counts;
}

async function* readParts(
  file: string,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ key: string | undefined; value: unknown }, void> {
  try {
    for await (const { key, value } of splitJson(chunks)) {
      yield {
        key: key === undefined ? undefined : (JSON.parse(key) as string),
        value: JSON.parse(value) as unknown,
      };
    }
  } catch (error) {
    throw error instanceof SyntaxError ? invalid(file, error.message) : error;
  }
}

function invalid(file: string, what: string): Error {
  return storageError(
    `${file} cannot be imported: ${what}`,
    "It must have the format that `svc store export` writes.",
  );
}
