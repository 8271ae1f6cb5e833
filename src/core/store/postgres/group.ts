import { toValue } from "../engine/column.ts";
import { type Attempt, facetKey, type IdRead, type LogWrite } from "./attempt.ts";
import type { CommitFunction } from "./commit-sql.ts";
import { type EntityHead, isPending, type LogHead, type Writer } from "./heads.ts";
import { toColumn, toKeyColumn } from "./sql-text.ts";
import { INDEXED_LENGTH, numberOf, type Row } from "./table-layout.ts";

/** Attempts that are written together or not at all, as one has read what another writes. */
export interface Unit {
  readonly attempts: readonly Attempt[];
}

/** Parts the attempts of a group, which are in the order of their ends, into units. */
export function unitsOf(group: readonly Attempt[]): Unit[] {
  const units = new Map<Writer, Set<Attempt>>();
  for (const attempt of group) {
    let unit = new Set([attempt]);
    for (const other of attempt.after) {
      const its = units.get(other);
      // Those of earlier groups are in the database, or are written before this one.
      if (its === undefined || its === unit) continue;
      const [small, large] = its.size < unit.size ? [its, unit] : [unit, its];
      for (const one of small) large.add(one);
      for (const one of small) units.set(one, large);
      unit = large;
    }
    units.set(attempt, unit);
  }
  return [...new Set(units.values())].map((unit) => {
    const attempts = unit.size === 1 ? [...unit] : group.filter((attempt) => unit.has(attempt));
    return { attempts };
  });
}

/** The parameters of the function that commits a group. */
export interface Statement {
  readonly locks: readonly number[];
  readonly modes: readonly boolean[];
  /** JSON: the rows of each part, in the order of their numbers. */
  readonly work: string;
}

interface Parts {
  /** Every entity that the group writes gets it. */
  readonly version: string;
  readonly commit: CommitFunction;
  /** The numbers of the units of the group before it, by their attempts, where that is under way. */
  readonly before?: ReadonlyMap<Writer, number> | undefined;
}

/** Writes a group as parameters of the function. */
export function statementOf(units: readonly Unit[], parts: Parts): Statement {
  const builder = new Builder(parts);
  for (const [at, unit] of units.entries()) builder.add(unit, at + 1);
  return builder.statement();
}

/** A write that changes which entities have a facet's value: the keys of the values. */
export function changedFacets(attempt: Attempt): string[] {
  const keys = new Set<string>();
  for (const [key, { layout, record }] of attempt.puts) {
    const before = recordOf(attempt.reads.get(key)!);
    for (const field of layout.spec.facets) {
      const [one, other] = [before && toValue(before.values[field]), record && toValue(record.values[field])];
      if (one === other) continue;
      if (one !== undefined) keys.add(facetKey(layout, field, one));
      if (other !== undefined) keys.add(facetKey(layout, field, other));
    }
  }
  return [...keys];
}

function recordOf(head: EntityHead): EntityHead["record"] {
  if (head.body === undefined) return undefined;
  head.record ??= head.layout.recordOf(head.body.view());
  return head.record;
}

/** The version of what never was in the database: another one has replaced it in the same group. */
const REPLACED = "-1";

class Builder {
  readonly #version: string;
  /** Whether it is exclusive, by number. */
  readonly #locks = new Map<number, boolean>();
  /** Rows by the number of the part: an object has such keys in their order. */
  readonly #work: Record<number, Row[]> = {};
  readonly #commit: CommitFunction;
  readonly #before: ReadonlyMap<Writer, number> | undefined;

  constructor({ version, commit, before }: Parts) {
    this.#version = version;
    this.#commit = commit;
    this.#before = before;
  }

  add({ attempts }: Unit, unit: number): void {
    const isOne = new Set<Writer>(attempts);
    const own = (head: EntityHead | LogHead) => isPending(head) && isOne.has(head.by!);
    const puts = new Map<string, EntityHead>();
    /** Keys of those that are in the database. */
    const stored = new Set<string>();
    for (const attempt of attempts) {
      this.#follow(attempt, unit);
      this.#read(attempt, unit, own);
      for (const head of attempt.reads.values())
        if (head.body !== undefined && !own(head)) stored.add(head.key);
      for (const key of changedFacets(attempt)) this.#lock(`f${key}`, false);
      for (const head of attempt.puts.values()) {
        // All that is written together has one version: what is replaced at the same time must not pass for it.
        const replaced = puts.get(head.key);
        if (replaced !== undefined) replaced.version = REPLACED;
        head.version = head.body === undefined ? null : this.#version;
        puts.set(head.key, head);
        this.#lock(`e${head.key}`, true);
      }
    }
    for (const head of puts.values()) this.#put(head, unit, stored.has(head.key));
    this.#writeLogs(attempts, unit);
  }

  statement(): Statement {
    const locks = [...this.#locks].sort(([a], [b]) => a - b);
    return {
      locks: locks.map(([lock]) => lock),
      modes: locks.map(([, isExclusive]) => isExclusive),
      work: JSON.stringify(this.#work),
    };
  }

  /** It is not stored unless what it is built on is. */
  #follow({ after }: Attempt, unit: number): void {
    for (const writer of after) {
      const before = this.#before?.get(writer);
      if (before !== undefined) this.#rows("after").push({ _u: unit, before });
    }
  }

  #read(attempt: Attempt, unit: number, own: (head: EntityHead | LogHead) => boolean): void {
    const { fence } = attempt;
    if (fence !== undefined) {
      const layout = attempt.fenceTable!;
      this.#lock(`e${layout.name}\0${fence.job}`, false);
      const row = { _u: unit, id: toKeyColumn(fence.job), epoch: fence.epoch };
      this.#rows("fence", layout.name).push(row);
    }
    for (const head of attempt.reads.values()) {
      if (own(head)) continue;
      this.#lock(`e${head.key}`, false);
      const row = { _u: unit, id: toKeyColumn(head.id), _ver: head.version };
      this.#rows("check", head.layout.name).push(row);
    }
    for (const head of attempt.logReads.values()) {
      if (own(head)) continue;
      this.#lock(`l${head.key}`, attempt.logWrites.has(head.key));
      const row = { _u: unit, log: toColumn(head.log), key: toKeyColumn(head.id), last: head.last };
      this.#rows("logs").push(row);
    }
    for (const read of attempt.idReads) this.#readIds(read, unit);
  }

  /** Who writes a facet's value shares it with others who do; who reads it excludes them. */
  #readIds({ layout, field, value, ids, key }: IdRead, unit: number): void {
    this.#lock(`f${key}`, true);
    const isText = typeof value === "string";
    const text = isText ? toColumn(value) : null;
    this.#rows(isText ? "text" : "other", layout.name, field).push({
      _u: unit,
      text,
      start: text && [...text].slice(0, INDEXED_LENGTH).join(""),
      number: isText ? null : numberOf(value),
      ids: ids.map(toKeyColumn),
    });
  }

  #put({ layout, id, body, record }: EntityHead, unit: number, isStored: boolean): void {
    if (body === undefined) {
      this.#rows("remove", layout.name).push({ _u: unit, id: toKeyColumn(id) });
      return;
    }
    const row = layout.rowOf({ id, body: body.text, epoch: epochOf(body.view()) }, record!);
    this.#rows(isStored ? "change" : "insert", layout.name).push({ _u: unit, ...row });
  }

  #writeLogs(attempts: readonly Attempt[], unit: number): void {
    const writes = new Map<string, { head: LogHead; isCleared: boolean; entries: string[] }>();
    for (const { logWrites } of attempts) {
      for (const [key, write] of logWrites) writes.set(key, joined(writes.get(key), write));
    }
    for (const [key, { head, isCleared, entries }] of writes) {
      this.#lock(`l${key}`, true);
      const name = { _u: unit, log: toColumn(head.log), key: toKeyColumn(head.id) };
      if (isCleared) this.#rows("clear").push(name);
      const first = head.last - entries.length + 1;
      if (entries.length === 0) continue;
      const rows = this.#rows("append");
      for (const [at, body] of entries.entries()) rows.push({ ...name, seq: first + at, body });
    }
  }

  #rows(...part: Parameters<CommitFunction["numberOf"]>): Row[] {
    const number = this.#commit.numberOf(...part);
    this.#work[number] ??= [];
    return this.#work[number];
  }

  #lock(key: string, isExclusive: boolean): void {
    const number = lockOf(key);
    this.#locks.set(number, isExclusive || this.#locks.get(number) === true);
  }
}

/** The number of a job's run, which fences are compared with. */
export function epochOf({ run_count }: { run_count?: unknown }): number | null {
  return Number.isSafeInteger(run_count) ? (run_count as number) : null;
}

function joined(before: LogWrite | undefined, { head, isCleared, entries }: LogWrite): LogWrite {
  if (before === undefined || isCleared) {
    return { head, isCleared: isCleared || before?.isCleared === true, entries: [...entries] };
  }
  return { head, isCleared: before.isCleared, entries: [...before.entries, ...entries] };
}

/** The number of an advisory lock: 53 bits of a hash (cyrb53). Two keys with one number only wait for each other. */
export function lockOf(key: string): number {
  let one = 0xdeadbeef;
  let other = 0x41c6ce57;
  for (let at = 0; at < key.length; at++) {
    const unit = key.charCodeAt(at);
    one = Math.imul(one ^ unit, 2654435761);
    other = Math.imul(other ^ unit, 1597334677);
  }
  one = Math.imul(one ^ (one >>> 16), 2246822507) ^ Math.imul(other ^ (other >>> 13), 3266489909);
  other = Math.imul(other ^ (other >>> 16), 2246822507) ^ Math.imul(one ^ (one >>> 13), 3266489909);
  return 4294967296 * (2097151 & other) + (one >>> 0);
}
