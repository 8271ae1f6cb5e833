import type { KeyMark } from "../../models/own-rows.ts";
import type { Content, ContentPart, ContentRow } from "../content.ts";
import { CORE_TABLES } from "../tables.ts";
import { keyOfMark, markOf } from "./key-marks.ts";
import type { Keyring } from "./keyring.ts";
import { isSealedJson, openEntity, openEntry, type Sealed, sealEntity, sealEntry } from "./sealed-row.ts";

/** Tables whose rows are not sealed. */
const READABLE = new Set(CORE_TABLES.filter(({ readable }) => readable === true).map(({ name }) => name));

/** What a store has, decrypted. Reading rejects where a key is missing, or something is not as it was encrypted. */
export function openedContent(content: Content, keys: Keyring): Content {
  return mapped(content, (part, row) =>
    isSealedJson(row.body) ? { ...row, body: openRow(keys, part, row) } : row,
  );
}

/** Files of a content that nobody without its keys can check. */
export async function countSealedFiles({ parts }: Content): Promise<number> {
  let count = 0;
  for (const part of parts) {
    if (part.name !== "FileContent" || part.isLog) continue;
    for await (const rows of part.rows()) count += rows.filter(({ body }) => isSealedJson(body)).length;
  }
  return count;
}

/** A decrypted content, encrypted with the first key. */
export function sealedContent(content: Content, keys: Keyring): Content {
  return mapped(content, (part, row) => ({ ...row, body: sealRow(keys, part, row) }));
}

/** A content with the mark of the first key alone: all of it will be encrypted with that, or nothing. */
export function withMark({ parts }: Content, keys: Keyring): Content {
  const id = keys.sealsWith;
  const mark = id === undefined ? [] : [toRow(markOf(id))];
  const isMarks = ({ name, isLog }: ContentPart) => name === "KeyMark" && !isLog;
  const known = parts.find(isMarks);
  const marks: ContentPart = {
    name: "KeyMark",
    isLog: false,
    async *rows() {
      yield mark;
      if (!known) return;
      for await (const batch of known.rows()) yield batch.filter((row) => keyOfMark(row) === undefined);
    },
  };
  return {
    parts: [...parts.filter((part) => !isMarks(part)), ...(known || id !== undefined ? [marks] : [])],
  };
}

function toRow(mark: KeyMark): ContentRow {
  return { id: mark.id, body: JSON.stringify(mark) };
}

function openRow(keys: Keyring, { name, isLog }: ContentPart, { id, number, body }: ContentRow): string {
  const stored = JSON.parse(body) as Sealed;
  return isLog ? openEntry(keys, name, id, number!, stored) : openEntity(keys, name, stored);
}

function sealRow(keys: Keyring, { name, isLog }: ContentPart, { id, number, body }: ContentRow): string {
  if (keys.sealsWith === undefined || (!isLog && READABLE.has(name))) return body;
  return JSON.stringify(
    isLog
      ? sealEntry(keys, name, id, number!, body)
      : sealEntity(keys, name, JSON.parse(body) as { readonly id: string }),
  );
}

function mapped({ parts }: Content, map: (part: ContentPart, row: ContentRow) => ContentRow): Content {
  return {
    parts: parts.map((part) => ({
      ...part,
      async *rows() {
        for await (const batch of part.rows()) yield batch.map((row) => map(part, row));
      },
    })),
  };
}
