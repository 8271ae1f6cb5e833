import { crc32 } from "node:zlib";
import type { TableSpec } from "../store.ts";

/**
 * Tells one way of indexing a table from another. Lines carry it; where it differs, the index values are taken from the
 * body again. Another spelling of the same functions only makes the next start slower.
 */
export function versionOf(spec: TableSpec): string {
  const source = `${String(spec.index)}\n${String(spec.text)}`;
  return crc32(source).toString(16).padStart(8, "0");
}
