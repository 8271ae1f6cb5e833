import { getOrMake } from "../../base/get-or-make.ts";
import type { LogPart } from "./checkpoint-file.ts";
import type { Contents } from "./contents.ts";
import { damageError } from "./damage-error.ts";
import type { LineHeader } from "./line.ts";
import type { Locator } from "./locators.ts";

/** What was found of one key so far. */
interface KeyReplay {
  /** Number of the newest write that cleared the key. */
  cleared: number;
  /** Four numbers for each entry: number of the write (0: not met), segment, offset, length. */
  readonly entries: number[];
}

/** Sorts the entries of logs from lines in any order. */
export class LogReplay {
  readonly #logs = new Map<string, Map<string, KeyReplay>>();

  add({ t, id, i, s }: Pick<LineHeader, "t" | "id" | "i" | "s">, at: Locator): void {
    const keys = getOrMake(this.#logs, t, () => new Map<string, KeyReplay>());
    const key = getOrMake(keys, id, () => ({ cleared: 0, entries: [] }));
    if (i === undefined || i === 0) {
      key.cleared = Math.max(key.cleared, s);
      return;
    }
    const { entries } = key;
    const place = (i - 1) * 4;
    while (entries.length < place + 4) entries.push(0);
    if (s < entries[place]!) return;
    entries[place] = s;
    entries[place + 1] = at.segment;
    entries[place + 2] = at.offset;
    entries[place + 3] = at.length;
  }

  /** Adds the entries of a part of a checkpoint; those whose file is gone, where `segmentOf` is 0, may be in another one. */
  load({ log, keys, counts, places }: LogPart, segmentOf: readonly number[]): void {
    let from = 0;
    for (const [at, id] of keys.entries()) {
      for (let i = 1; i <= counts[at]!; i++, from++) {
        const segment = segmentOf[places.segments[from]!] ?? 0;
        const place = { segment, offset: places.offsets[from]!, length: places.lengths[from]! };
        this.add({ t: log, id, i, s: segment === 0 ? 0 : places.seqs[from]! }, place);
      }
    }
  }

  /** Passes all entries on. Throws if one is missing between others. */
  finish(contents: Contents): void {
    for (const [log, keys] of this.#logs) {
      for (const [key, { cleared, entries }] of keys) {
        let end = entries.length;
        while (end > 0 && entries[end - 4]! <= cleared) end -= 4;
        for (let place = 0; place < end; place += 4) {
          const at = {
            segment: entries[place + 1]!,
            offset: entries[place + 2]!,
            length: entries[place + 3]!,
          };
          if (entries[place]! <= cleared)
            throw missingEntry(contents, { log, key, number: place / 4 + 1, end, entries });
          contents.append(log, key, at, entries[place]!);
        }
        keys.delete(key);
      }
    }
  }
}

function missingEntry(
  contents: Contents,
  {
    log,
    key,
    number,
    end,
    entries,
  }: { log: string; key: string; number: number; end: number; entries: number[] },
): Error {
  const file = contents.segments.get(entries[end - 3]!)?.name ?? "a file";
  const what = `entry ${number} of log ${log} "${key}" is missing before it`;
  return damageError({ file, byte: entries[end - 2]!, what });
}
