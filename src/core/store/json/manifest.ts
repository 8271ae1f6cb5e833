import { crc32 } from "node:zlib";
import { readFully, type StoreIo } from "../../storage/file-io.ts";
import { ClosedStoreError, type Mark } from "../closed.ts";
import { storageError } from "../storage-error.ts";
import type { CheckpointName } from "./checkpoint-file.ts";
import { damageError } from "./damage-error.ts";

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
  /** The process that may write; none after a clean stop. */
  readonly owner?: Owner;
  /** The owner numbers its files below this; the next owner starts here. */
  readonly next?: number;
  /** `size` is missing if the file was being written to; a file with it must have at least that size. */
  readonly files: readonly { readonly name: string; readonly size?: number }[];
  /** A checkpoint of the index as of an earlier moment; all that it has is in the files, too. */
  readonly checkpoint?: CheckpointName;
}

/** The manifest of a store that nobody may open: its format is one that no version supports, earlier ones included. */
export interface ClosedManifest extends Omit<Manifest, "format"> {
  readonly format: "moved";
  readonly moved: Mark;
}

export const MANIFEST = "MANIFEST.json";

/** Reads the manifest; `undefined` if the folder has none. */
export function readManifest(io: StoreIo, folder: string): Manifest | undefined {
  if (!io.list(folder).includes(MANIFEST)) return undefined;
  return parseManifest(readManifestText(io, folder));
}

/** The manifest of a folder, also where the store is closed. */
export function readAnyManifest(io: StoreIo, folder: string): Manifest | ClosedManifest | undefined {
  if (!io.list(folder).includes(MANIFEST)) return undefined;
  return parseAnyManifest(readManifestText(io, folder));
}

/** The text of an existing manifest. */
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

/** The content of a manifest. Throws if it is damaged, if nobody may open the store, or if its format is not supported. */
export function parseManifest(text: string): Manifest {
  const manifest = parseAnyManifest(text);
  if (manifest.format === "moved") throw new ClosedStoreError(manifest.moved);
  return manifest;
}

function parseAnyManifest(text: string): Manifest | ClosedManifest {
  const { content, expected } = understand(text);
  // Compared as text: a change that JSON ignores still counts as a change.
  if (content === undefined || expected !== text) {
    const byte = firstDifference(text, expected);
    throw damageError({ file: MANIFEST, byte, what: "it is not as it was written" });
  }
  if (content.format === 1 || content.format === "moved") return content;
  throw storageError(
    `The store has format ${String((content as { format: unknown }).format)}; this version supports format 1`,
    "Use a version of the service that supports this format.",
  );
}

/** A manifest as it is written. */
export function manifestText(manifest: Manifest | ClosedManifest): string {
  const c = crc32(JSON.stringify(manifest)).toString(16).padStart(8, "0");
  return `${JSON.stringify({ ...manifest, c }, null, 2)}\n`;
}

/** The content of a manifest, including fields that this version does not know, and its text. */
function understand(text: string): { content: Manifest | ClosedManifest | undefined; expected: string } {
  try {
    const { c: _, ...content } = JSON.parse(text) as (Manifest | ClosedManifest) & { c: string };
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
