import type { StoreIo } from "../../storage/file-io.ts";
import type { Mark } from "../closed.ts";
import type { Content, ContentPart, ContentRow } from "../content.ts";
import { findSlots } from "../query.ts";
import type { StoreLogger } from "../store.ts";
import { readBodies } from "./bodies.ts";
import { Contents } from "./contents.ts";
import { FileSet } from "./file-set.ts";
import { refuseIncomplete } from "./incomplete.ts";
import { LineBuffer } from "./line.ts";
import { loadFiles, openNamed } from "./load.ts";
import type { Locator } from "./locators.ts";
import { readAnyManifest } from "./manifest.ts";
import type { Segment } from "./segment.ts";
import { TableWriter } from "./table-writer.ts";

const SILENT: StoreLogger = { info() {}, warn() {}, error() {} };
/** Bytes of a file after which the next one begins. */
const LIMIT = 64 * 1024 * 1024;
/** The most of a batch. */
const BATCH = { rows: 500, bytes: 1024 * 1024 };

/**
 * Reads what a folder has, without changing anything in it; also that of a store that is closed. Nobody may have it
 * open. Rejects if a line is damaged.
 */
export async function readContent<T>(
  io: StoreIo,
  folder: string,
  work: (content: Content) => Promise<T>,
): Promise<T> {
  refuseIncomplete(io, folder);
  return readFiles(io, folder, work);
}

/** Reads the files of a folder that is being filled. */
export async function readFiles<T>(
  io: StoreIo,
  folder: string,
  work: (content: Content) => Promise<T>,
): Promise<T> {
  const contents = new Contents(new Map());
  const files = new FileSet({ io, folder, log: SILENT, segments: contents.segments });
  try {
    const unsealed = openNamed(files, readAnyManifest(io, folder));
    await loadFiles(files, contents, unsealed);
    return await work({ parts: [...tablesOf(contents), ...logsOf(contents)] });
  } finally {
    files.close();
  }
}

function tablesOf(contents: Contents): ContentPart[] {
  return [...contents.tables.values()].map((table) => ({
    name: table.name,
    isLog: false,
    async *rows() {
      const { index } = table;
      const slots = await findSlots(index, { sort: "id", limit: index.size }, (found) => found.slots);
      const places = slots.map((slot) => ({ id: index.idOf(slot)!, at: contents.locatorOf(table, slot) }));
      yield* readRows(contents, places);
    },
  }));
}

function logsOf(contents: Contents): ContentPart[] {
  return [...contents.logNames()].map((name) => ({
    name,
    isLog: true,
    rows: () => readRows(contents, placesOf(contents, name)),
  }));
}

function* placesOf(contents: Contents, log: string): Generator<Place> {
  const keys = contents.keysOf(log);
  for (const id of [...keys.keys()].sort()) {
    const entries = keys.get(id)!;
    for (let number = 1; number <= entries.count; number++) yield { id, number, at: entries.get(number) };
  }
}

interface Place {
  readonly id: string;
  readonly number?: number;
  readonly at: Locator;
}

async function* readRows(contents: Contents, places: Iterable<Place>): AsyncGenerator<ContentRow[], void> {
  let batch: Place[] = [];
  let bytes = 0;
  const read = async () => {
    const bodies = await readBodies(
      contents.segments,
      batch.map(({ at }) => at),
      (body) => body,
    );
    return batch.map(({ at: _, ...names }, place) => ({ ...names, body: bodies[place]! }));
  };
  for (const place of places) {
    batch.push(place);
    bytes += place.at.length;
    if (batch.length < BATCH.rows && bytes < BATCH.bytes) continue;
    yield await read();
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield await read();
}

/** Writes a content as the files of a store, which has nothing else. With a mark, nobody may open it then. */
export async function writeContent(
  io: StoreIo,
  folder: string,
  content: Content,
  moved?: Mark,
): Promise<void> {
  const files = new FileSet({ io, folder, log: SILENT, segments: new Map() });
  const lines = new LineBuffer();
  const segments: Segment[] = [];
  let last = 0;
  files.claim.seize();
  try {
    for (const part of content.parts) {
      const writer = new TableWriter(files, part.name, LIMIT);
      for await (const batch of part.rows()) {
        for (const row of batch) {
          lines.clear();
          addLine(lines, part.name, row, ++last);
          writer.add(lines.bytes().subarray(0, lines.length - 1), last);
        }
      }
      await writer.finish();
      segments.push(...writer.segments);
    }
    await io.syncFolder(folder);
    await files.publish(segments, undefined);
    await files.release(moved);
  } finally {
    files.close();
  }
}

/** Adds the line of a row, as write number `s`. */
export function addLine(lines: LineBuffer, name: string, { id, number, body }: ContentRow, s: number): void {
  const names = `{"s":${s},"k":0,"n":0,"t":${JSON.stringify(name)},"id":${JSON.stringify(id)}`;
  lines.add(`${names}${number === undefined ? "" : `,"i":${number},"ix":{}`},"d":`, [body]);
}
