import { closeSync, mkdirSync, openSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { fileHeader } from "../json/line.ts";
import { MANIFEST, manifestText } from "../json/manifest.ts";
import { damagedChain, inParallel, type Taken } from "./chain.ts";
import { type Objects, unseal } from "./sealed.ts";

const FILE = /^[A-Za-z][A-Za-z0-9_-]*\.(\d+)\.jsonl$/;

/** Writes what an owner has found into an empty folder, as the files of a store that was closed. */
export async function restoreFolder(
  objects: Objects,
  folder: string,
  { base, groups }: Taken,
): Promise<void> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const files: { name: string; size: number }[] = [];
  let number = 0;
  const parts: { key: string; size: number; at: number; handle: number }[] = [];
  const handles: number[] = [];
  try {
    for (const file of base?.files ?? []) {
      if (!FILE.test(file.name)) throw damagedChain(`it names a file ${JSON.stringify(file.name)}`);
      number = Math.max(number, Number(FILE.exec(file.name)![1]));
      const handle = openSync(join(folder, file.name), "wx", 0o600);
      handles.push(handle);
      let at = 0;
      for (const part of file.parts) {
        parts.push({ ...part, at, handle });
        at += part.size;
      }
      files.push({ name: file.name, size: at });
    }
    await inParallel(parts, async ({ key, size, at, handle }) => {
      const part = unseal(await objects.get(key));
      if (part?.content.length !== size)
        throw damagedChain(`${key} is ${part === undefined ? "missing or " : ""}not whole`);
      for (let written = 0; written < size; )
        written += writeSync(handle, part.content, written, size - written, at + written);
    });
  } finally {
    for (const handle of handles) closeSync(handle);
  }
  if (groups.length > 0) {
    const from = Number(/^\{"s":(\d+),/.exec(groups[0]!.toString("latin1", 0, 32))?.[1]);
    const content = Buffer.concat([fileHeader({ kind: "journal", from }), ...groups]);
    const name = `journal.${number + 1}.jsonl`;
    writeFileSync(join(folder, name), content, { mode: 0o600, flag: "wx" });
    files.push({ name, size: content.length });
  }
  if (files.length > 0)
    writeFileSync(join(folder, MANIFEST), manifestText({ format: 1, files }), { mode: 0o600 });
}
