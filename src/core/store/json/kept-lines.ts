import { getOrMake } from "../../base/get-or-make.ts";
import { type LineHeader, readBody } from "./line.ts";
import { isRemoval } from "./removals.ts";

/** The newest version of an entity that is left. */
export interface KeptEntity {
  readonly s: number;
  readonly isRemoved: boolean;
  readonly fields: EntityFields;
}

/** What a repair reads of an entity. */
export interface EntityFields {
  readonly status?: string;
  readonly job_id?: string;
  readonly created_at?: string;
  readonly updated_at?: string;
}

/** What is left of a log's key. */
interface KeptKey {
  cleared: number;
  /** Number of the write of each entry; 0 where there is none. */
  readonly seqs: number[];
}

/** The content of the remaining lines: jobs, the requested entities, and all keys of logs. */
export class KeptLines {
  readonly #asked: (table: string, id: string) => boolean;
  readonly #entities = new Map<string, KeptEntity>();
  readonly logs = new Map<string, Map<string, KeptKey>>();
  /** Highest number of a write. */
  last = 0;

  constructor(asked: (table: string, id: string) => boolean) {
    this.#asked = asked;
  }

  add(header: LineHeader, bytes: Buffer): void {
    const { s, t, id, i } = header;
    this.last = Math.max(this.last, s);
    if (i !== undefined) {
      const key = getOrMake(this.#keysOf(t), id, () => ({ cleared: 0, seqs: [] }));
      if (i === 0) key.cleared = Math.max(key.cleared, s);
      else {
        while (key.seqs.length < i) key.seqs.push(0);
        key.seqs[i - 1] = Math.max(key.seqs[i - 1]!, s);
      }
      return;
    }
    if (t !== "Job" && !this.#asked(t, id)) return;
    const known = this.find(t, id);
    if (known !== undefined && known.s > s) return;
    const isRemoved = isRemoval(header);
    const fields = isRemoved ? {} : (JSON.parse(readBody(bytes)) as EntityFields);
    const { status, job_id, created_at, updated_at } = fields;
    this.#entities.set(`${t}\n${id}`, {
      s,
      isRemoved,
      fields: { status, job_id, created_at, updated_at } as EntityFields,
    });
  }

  find(table: string, id: string): KeptEntity | undefined {
    return this.#entities.get(`${table}\n${id}`);
  }

  /**
   * The entries of a key that can be read in order, how many there are after them, and since when they count.
   */
  entriesOf(log: string, id: string): { kept: number; behind: number; cleared: number } {
    const { seqs, cleared } = this.logs.get(log)?.get(id) ?? { seqs: [], cleared: 0 };
    let end = seqs.length;
    while (end > 0 && seqs[end - 1]! <= cleared) end--;
    let kept = 0;
    // Entries that are older than one before them were cleared, by a line that no longer exists.
    for (let last = cleared; kept < end && seqs[kept]! > last; kept++) last = seqs[kept]!;
    return { kept, behind: end - kept, cleared };
  }

  /** Ids of jobs that have not ended. */
  unfinishedJobs(): string[] {
    const ids: string[] = [];
    for (const [key, { isRemoved, fields }] of this.#entities) {
      if (!key.startsWith("Job\n") || isRemoved) continue;
      if (!["completed", "failed", "cancelled"].includes(fields.status ?? "")) ids.push(key.slice(4));
    }
    return ids;
  }

  #keysOf(log: string): Map<string, KeptKey> {
    return getOrMake(this.logs, log, () => new Map());
  }
}
