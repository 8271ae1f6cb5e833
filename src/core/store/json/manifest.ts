import { crc32 } from "node:zlib";
import { storageError } from "../storage-error.ts";
import { damageError } from "./damage-error.ts";
import type { StoreIo } from "./io.ts";
import { readFully, writeFully } from "./io.ts";

/** Names the files that make up the store, in one file that is replaced as a whole. */
export interface Manifest {
  readonly format: 1;
  /** `size` is missing where the file was being written to; a file that has it must have at least that size. */
  readonly files: readonly { readonly name: string; readonly size?: number }[];
}

export const MANIFEST = "MANIFEST.json";

/** Reads the manifest; `undefined` where the folder has none. */
export function readManifest(io: StoreIo, folder: string): Manifest | undefined {
  if (!io.list(folder).includes(MANIFEST)) return undefined;
  const file = io.open(`${folder}/${MANIFEST}`, "read");
  const bytes = Buffer.alloc(io.size(file));
  try {
    bytes.fill(0, readFully(io, file, bytes, 0));
  } finally {
    io.close(file);
  }
  return parseManifest(bytes);
}

/** Makes a list of files the content of the store, in one step that happens or does not. */
export async function writeManifest(io: StoreIo, folder: string, manifest: Manifest): Promise<void> {
  const temporary = `${folder}/${MANIFEST}.tmp`;
  if (io.list(folder).includes(`${MANIFEST}.tmp`)) io.remove(temporary);
  const file = io.open(temporary, "create");
  try {
    writeFully(io, file, Buffer.from(toText(manifest)), 0);
    await io.sync(file);
  } finally {
    io.close(file);
  }
  io.rename(temporary, `${folder}/${MANIFEST}`);
  await io.syncFolder(folder);
}

function parseManifest(bytes: Buffer): Manifest {
  const text = bytes.toString("utf8");
  const { content, expected } = understand(text);
  // Compared as text: a change that JSON does not see is a change all the same.
  if (expected !== text) {
    const byte = firstDifference(text, expected);
    throw damageError({ file: MANIFEST, byte, what: "it is not as it was written" });
  }
  if (content.format === 1) return content;
  throw storageError(
    `The store has format ${String(content.format)}; this version reads format 1`,
    "Use a version of the service that knows this format.",
  );
}

/** The content of a manifest and the text that it would have been written as. */
function understand(text: string): { content: Manifest; expected: string } {
  try {
    const content = JSON.parse(text) as Manifest;
    return { content, expected: toText(content) };
  } catch {
    return { content: { format: 1, files: [] }, expected: "" };
  }
}

function toText({ format, files }: Manifest): string {
  const content = {
    format,
    files: files.map(({ name, size }) => (size === undefined ? { name } : { name, size })),
  };
  const c = crc32(JSON.stringify(content)).toString(16).padStart(8, "0");
  return `${JSON.stringify({ ...content, c }, null, 2)}\n`;
}

function firstDifference(text: string, expected: string): number {
  let at = 0;
  while (at < text.length && text[at] === expected[at]) at++;
  return at;
}
