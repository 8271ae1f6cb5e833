import type { StoreIo } from "../../storage/file-io.ts";
import type { CheckpointName } from "./checkpoint-file.ts";
import { Contents } from "./contents.ts";
import { FileSet } from "./file-set.ts";
import { openNamed, readAll } from "./load.ts";
import type { Locator } from "./locators.ts";
import { readManifest } from "./manifest.ts";
import type { Problem } from "./problem.ts";

const SILENT = { info() {}, warn() {}, error() {} };

/**
 * Checks that a start with the checkpoint finds the same lines as one that reads all files, which must be sound. One that
 * does not fit is no problem: a start does not use it.
 */
export async function verifyCheckpoint(io: StoreIo, folder: string): Promise<Problem[]> {
  const named = readManifest(io, folder)?.checkpoint;
  if (named === undefined) return [];
  const found = await placesOf(io, folder, named).catch(() => undefined);
  if (found === undefined) return [];
  const expected = await placesOf(io, folder, undefined);
  const name = firstDifference(expected, found) ?? firstDifference(found, expected);
  if (name === undefined) return [];
  const what = `it differs from the files: ${name}. Remove it: the next start reads all files and writes another one`;
  return [{ file: named.name, byte: 0, what }];
}

/** The location of each entity and entry, by its name. */
async function placesOf(
  io: StoreIo,
  folder: string,
  named: CheckpointName | undefined,
): Promise<Map<string, string>> {
  const contents = new Contents(new Map());
  const files = new FileSet({ io, folder, log: SILENT, segments: contents.segments });
  try {
    const unsealed = openNamed(files, readManifest(io, folder));
    await readAll(files, contents, unsealed, named, { arePlaces: true });
    const places = new Map<string, string>();
    const textOf = ({ segment, offset, length }: Locator, seq: number) =>
      `${contents.segments.get(segment)?.name} ${offset} ${length} ${seq}`;
    for (const table of contents.tables.values()) {
      const locators = contents.locatorsOf(table);
      for (const slot of table.index.slots())
        places.set(
          `${table.name} "${table.index.idOf(slot)}"`,
          textOf(locators.get(slot), locators.seqOf(slot)),
        );
    }
    for (const log of contents.logNames())
      for (const [key, entries] of contents.keysOf(log))
        for (let number = 1; number <= entries.count; number++)
          places.set(
            `entry ${number} of log ${log} "${key}"`,
            textOf(entries.get(number), entries.seqOf(number)),
          );
    return places;
  } finally {
    files.close();
  }
}

function firstDifference(one: Map<string, string>, other: Map<string, string>): string | undefined {
  for (const [name, place] of one) if (other.get(name) !== place) return name;
  return undefined;
}
