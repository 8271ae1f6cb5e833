import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { lockFolder } from "./json/folder-lock.ts";
import { HEADROOM } from "./json/headroom.ts";
import { openBackend } from "./json/json-backend.ts";
import { nodeIo } from "./json/node-io.ts";
import { resealFiles } from "./json/reseal.ts";
import { nodeTimers } from "./json/timers.ts";
import type { Problem } from "./json/verify.ts";
import { verifyFiles } from "./json/verify.ts";
import type { StoreLogger } from "./store.ts";

export type { Problem } from "./json/verify.ts";

const SILENT: StoreLogger = { info() {}, warn() {}, error() {} };

/** What a table or log became in an export. */
export interface Exported {
  readonly file: string;
  readonly count: number;
}

/**
 * Writes what a store holds as plain JSON: for each table a file with the list of its entities, for each log a file with
 * the entries of each key. The store must not be in use.
 */
export async function exportStore(dataDir: string, to: string): Promise<Exported[]> {
  const backend = await openBackend(new Map(), {
    folder: dataDir,
    log: SILENT,
    io: nodeIo,
    timers: nodeTimers,
    journalBytes: 16 * 1024 * 1024,
    reserveBytes: 1024 * 1024,
    headroom: HEADROOM,
    lock: true,
  });
  try {
    mkdirSync(to, { recursive: true });
    const exported: Exported[] = [];
    for (const table of backend.tableNames()) {
      exported.push(await writeList(join(to, `${table}.json`), ["[", "]"], backend.entities(table)));
    }
    for (const log of backend.logNames()) {
      exported.push(await writeList(join(to, `${log}.json`), ["{", "}"], backend.keys(log)));
    }
    return exported;
  } finally {
    await backend.close();
  }
}

/** Reads every line of every file of a store and tells what is not as it was written. The store must not be in use. */
export async function verifyStore(
  dataDir: string,
): Promise<{ lines: number; files: number; problems: Problem[] }> {
  const lock = await lockFolder(dataDir, SILENT);
  try {
    return await verifyFiles(nodeIo, dataDir);
  } finally {
    await lock.release();
  }
}

/**
 * Accepts the files of a store as they are after an edit by hand: checksums and indexes are made anew. Lines that are no
 * JSON are left out and told; the files as they were stay beside the new ones with `.old` behind their names.
 */
export async function resealStore(
  dataDir: string,
): Promise<{ lines: number; edited: number; problems: Problem[] }> {
  const lock = await lockFolder(dataDir, SILENT);
  try {
    return await resealFiles(nodeIo, dataDir);
  } finally {
    await lock.release();
  }
}

async function writeList(
  path: string,
  [open, close]: readonly [string, string],
  items: AsyncIterable<string>,
): Promise<Exported> {
  const file = openSync(path, "w", 0o600);
  let count = 0;
  try {
    writeSync(file, open);
    for await (const item of items) writeSync(file, `${count++ === 0 ? "" : ","}\n${item}`);
    writeSync(file, `\n${close}\n`);
  } finally {
    closeSync(file);
  }
  return { file: path, count };
}
