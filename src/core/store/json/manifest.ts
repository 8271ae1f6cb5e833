import { crc32 } from "node:zlib";
import { storageError } from "../storage-error.ts";
import { damageError } from "./damage-error.ts";
import type { StoreIo } from "./io.ts";
import { readFully } from "./io.ts";

/** A process that has the store open. */
export interface Owner {
  /** Random, for each time that a store is opened. */
  readonly token: string;
  readonly host: string;
  readonly pid: number;
}

/** Names the files that make up the store, in one file that is replaced as a whole. */
export interface Manifest {
  readonly format: 1;
  /** Who may write; none after a clean stop. */
  readonly owner?: Owner;
  /** The owner numbers its files below this; who takes the store from it begins here. */
  readonly next?: number;
  /** `size` is missing where the file was being written to; a file that has it must have at least that size. */
  readonly files: readonly { readonly name: string; readonly size?: number }[];
}

export const MANIFEST = "MANIFEST.json";

/** Reads the manifest; `undefined` where the folder has none. */
export function readManifest(io: StoreIo, folder: string): Manifest | undefined {
  if (!io.list(folder).includes(MANIFEST)) return undefined;
  return parseManifest(readManifestText(io, folder));
}

/** The text of a manifest that is there. */
export function readManifestText(io: StoreIo, folder: string): string {
  const file = io.open(`${folder}/${MANIFEST}`, "read");
  const bytes = Buffer.alloc(io.size(file));
  try {
    bytes.fill(0, readFully(io, file, bytes, 0));
  } finally {
    io.close(file);
  }
  return bytes.toString("utf8");
}

/** What a manifest says. Throws where it is not as it was written, or of a format that this version does not know. */
export function parseManifest(text: string): Manifest {
  const { content, expected } = understand(text);
  // Compared as text: a change that JSON ignores still counts as a change.
  if (content === undefined || expected !== text) {
    const byte = firstDifference(text, expected);
    throw damageError({ file: MANIFEST, byte, what: "it is not as it was written" });
  }
  if (content.format === 1) return content;
  throw storageError(
    `The store has format ${String(content.format)}; this version supports format 1`,
    "Use a version of the service that supports this format.",
  );
}

/** A manifest as it is written. */
export function manifestText(manifest: Manifest): string {
  const c = crc32(JSON.stringify(manifest)).toString(16).padStart(8, "0");
  return `${JSON.stringify({ ...manifest, c }, null, 2)}\n`;
}

/** The content of a manifest, fields that this version does not know included, and the text that it is written as. */
function understand(text: string): { content: Manifest | undefined; expected: string } {
  try {
    const { c: _, ...content } = JSON.parse(text) as Manifest & { c: string };
    return { content, expected: manifestText(content) };
  } catch {
    return { content: undefined, expected: "" };
  }
}

function firstDifference(text: string, expected: string): number {
  let at = 0;
  while (at < text.length && text[at] === expected[at]) at++;
  return at;
}
