import type { Logger } from "../base/log.ts";
import type { Redactor } from "../base/redactor.ts";
import type { Ledger, Unit } from "../entities/ledger.ts";
import { type AuditEntry, ChainCheck, hashOf } from "../models/audit-entry.ts";
import type { AuditHead } from "../models/own-rows.ts";
import type { Store } from "../store/store.ts";
import { type Actor, type Caller, nameOf, SYSTEM } from "./caller.ts";

/** Lines read per batch. */
const READ = 500;
/** Maximum number of lines scanned per query: the result says where to continue. */
const MOST_LOOKED = 20_000;
const DAY = 24 * 3_600_000;
const GENESIS = { n: 0, hash: "" };

/** What to record. */
export type AuditEvent = Pick<AuditEntry, "action"> &
  Partial<Pick<AuditEntry, "target" | "before" | "after" | "outcome">> & { readonly by: Actor };

/** What a change writes with, in the unit of its line. */
export type AuditUnit = Pick<Unit, "tx" | "now">;

export interface AuditQuery {
  /** Only lines with a lower number. */
  readonly before?: number;
  /** @default 50 */
  readonly limit?: number;
  readonly action?: string;
  /** Part of the caller's name or address; case-insensitive. */
  readonly who?: string;
  /** Part of the target's kind or id. */
  readonly target?: string;
  /** ISO 8601. */
  readonly since?: string;
  readonly until?: string;
}

export interface AuditPage {
  /** Newest first. */
  readonly items: AuditEntry[];
  /** Send it as `before` for older lines; `null` if there are none. */
  readonly next: number | null;
  /** Number of lines in the log, regardless of the query. */
  readonly total: number;
}

export interface AuditParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly redactor: Redactor;
  readonly log: Logger;
}

/**
 * The log of security-relevant actions: lines are only ever added, and stay when their target is removed. A
 * line is stored in the same transaction as the change that it records.
 */
export class AuditLog {
  readonly #parts: AuditParts;
  readonly #log: Logger;

  constructor(parts: AuditParts) {
    this.#parts = parts;
    this.#log = parts.log.with({ category: "security" });
  }

  /** Adds a line inside a unit of work; it is also logged once it is stored. */
  async write(unit: Unit, event: AuditEvent): Promise<void> {
    const head = await unit.tx.get("AuditHead", "head");
    const entry = this.#toEntry(event, { at: unit.now, last: head?.last ?? GENESIS });
    const today = unit.now.slice(0, 10);
    // A clock that was set back must not mix up the order.
    const last_day = head && head.last_day > today ? head.last_day : today;
    const last = { n: entry.n, hash: entry.hash };
    await unit.tx.append("Audit", last_day, entry);
    if (head) await unit.tx.change("AuditHead", "head", (current) => ({ ...current, last_day, last }));
    else
      await unit.tx.insert("AuditHead", { id: "head", first_day: last_day, last_day, base: GENESIS, last });
    unit.afterwards(() => this.#tell(event, entry));
  }

  /** Adds a line, together with what `also` stores; neither where that throws. */
  record(event: AuditEvent, also: (unit: AuditUnit) => Promise<void> = async () => {}): Promise<void> {
    return this.change(also, () => event);
  }

  /** Stores a change together with the line about it; `lineOf` gives none for what changes nothing. */
  change<T>(
    change: (unit: AuditUnit) => Promise<T>,
    lineOf: (changed: T) => AuditEvent | undefined,
  ): Promise<T> {
    return this.#parts.ledger.write(async (unit) => {
      const changed = await change({ tx: unit.tx, now: unit.now });
      const event = lineOf(changed);
      if (event) await this.write(unit, event);
      return changed;
    });
  }

  /**
   * The same for actions that have already happened: if the store cannot write, only the service's log has
   * it.
   */
  note(event: AuditEvent): Promise<void> {
    return this.record(event).catch((error: unknown) =>
      this.#log.error("a line of the audit log could not be stored", { ...fieldsOf(event), error }),
    );
  }

  /** Matching lines, newest first. */
  async list(query: AuditQuery = {}): Promise<AuditPage> {
    const { limit = 50, before = Number.POSITIVE_INFINITY } = query;
    const head = await this.#head();
    const total = head ? head.last.n - head.base.n : 0;
    const items: AuditEntry[] = [];
    let looked = 0;
    let lowest: number | undefined;
    for await (const entry of this.#backwards(head)) {
      if (entry.n >= before) continue;
      if (items.length === limit || looked === MOST_LOOKED) return { items, next: lowest ?? null, total };
      lowest = entry.n;
      looked++;
      if (matches(entry, query)) items.push(entry);
    }
    return { items, next: null, total };
  }

  /** Lines after number `after`, oldest first, at most `limit`. */
  async after(after: number, limit: number): Promise<AuditEntry[]> {
    const found: AuditEntry[] = [];
    for await (const entry of this.#forwards(await this.#head())) {
      if (entry.n > after && found.push(entry) === limit) break;
    }
    return found;
  }

  /** The last line, which the log itself has written down. */
  async end(): Promise<{ readonly n: number; readonly hash: string } | undefined> {
    return (await this.#head())?.last;
  }

  /**
   * Follows the chain of hashes from the first line that is kept; `problem` names the first that does not
   * match.
   */
  async verify(): Promise<{ lines: number; problem: string | undefined }> {
    for (;;) {
      const head = await this.#head();
      const result = await this.#follow(head);
      // Lines that were trimmed in the meantime look like missing lines.
      if (result.problem === undefined || (await this.#head())?.base.n === head?.base.n) return result;
    }
  }

  async #follow(head: AuditHead | undefined): Promise<{ lines: number; problem: string | undefined }> {
    const check = new ChainCheck(head?.base ?? GENESIS);
    for await (const entry of this.#forwards(head)) {
      const problem = check.add(entry);
      if (problem) return { lines: check.count, problem };
    }
    const last = check.last?.n ?? 0;
    const isWhole = last >= (head?.last.n ?? 0);
    return { lines: check.count, problem: isWhole ? undefined : `lines after ${last} are missing` };
  }

  /** Removes the days that ended before a time, milliseconds since the epoch; resolves with the number of lines. */
  async trim(end: number): Promise<number> {
    const first = new Date(end).toISOString().slice(0, 10);
    const head = await this.#head();
    if (!head || head.first_day >= first) return 0;
    const gone = [...days(head)].filter((day) => day < first && day < head.last_day);
    let base = head.base;
    for (const day of gone) base = (await this.#lastOf(day)) ?? base;
    const lines = base.n - head.base.n;
    const first_day = [first, head.last_day].sort()[0]!;
    return this.#parts.ledger.write(async (unit) => {
      const now = await unit.tx.get("AuditHead", "head");
      // Another instance has trimmed it in the meantime.
      if (now?.first_day !== head.first_day || now.base.n !== head.base.n) return 0;
      for (const day of gone) await unit.tx.clear("Audit", day);
      await unit.tx.change("AuditHead", "head", (current) => ({ ...current, first_day, base }));
      if (lines === 0) return 0;
      const after = { lines, before: `${first_day}T00:00:00.000Z` };
      await this.write(unit, { by: SYSTEM, action: "audit.trim", after });
      return lines;
    });
  }

  #toEntry(event: AuditEvent, { at, last }: { at: string; last: { n: number; hash: string } }): AuditEntry {
    const { by, action, target = null, before = null, after = null, outcome = "done" } = event;
    const { address = null, ...who } = typeof by === "string" ? { kind: "system" as const, says: by } : by;
    const { kind, session, access, name, says, proven } = who as Caller;
    const said = { ...(name && { name }), ...(says && { says }) };
    const clean = this.#parts.redactor.json({ said, target, before, after }) as {
      said: object;
      target: AuditEntry["target"];
      before: unknown;
      after: unknown;
    };
    const entry = {
      n: last.n + 1,
      at,
      who: {
        kind,
        ...(session && { session }),
        ...(access && { access }),
        ...clean.said,
        ...(proven && { proven }),
      },
      address,
      action,
      target: clean.target,
      // As it will be parsed later.
      before: JSON.parse(JSON.stringify(clean.before ?? null)) as unknown,
      after: JSON.parse(JSON.stringify(clean.after ?? null)) as unknown,
      outcome,
    };
    return { ...entry, hash: hashOf(entry, last.hash) };
  }

  #tell(event: AuditEvent, { n, who, outcome, target, before, after }: AuditEntry): void {
    const { by, action } = event;
    const fields = { ...fieldsOf({ by, action, target, before, after }), n, who: nameOf(who) };
    if (outcome === "done") this.#log.info(action, fields);
    else this.#log.warn(action, fields);
  }

  #head(): Promise<AuditHead | undefined> {
    return this.#parts.store.table("AuditHead").get("head");
  }

  async #lastOf(day: string): Promise<{ n: number; hash: string } | undefined> {
    const log = this.#parts.store.log("Audit");
    const count = await log.last(day);
    const [found] = await log.read(day, { after: count - 1, limit: 1 });
    return found && { n: found.entry.n, hash: found.entry.hash };
  }

  async *#forwards(head: AuditHead | undefined): AsyncGenerator<AuditEntry> {
    const log = this.#parts.store.log("Audit");
    for (const day of head ? days(head) : []) {
      for (let after = 0; ; after += READ) {
        const entries = await log.read(day, { after, limit: READ });
        for (const { entry } of entries) yield entry;
        if (entries.length < READ) break;
      }
    }
  }

  async *#backwards(head: AuditHead | undefined): AsyncGenerator<AuditEntry> {
    const log = this.#parts.store.log("Audit");
    for (const day of head ? [...days(head)].reverse() : []) {
      for (let end = await log.last(day); end > 0; end -= READ) {
        const after = Math.max(0, end - READ);
        const entries = await log.read(day, { after, limit: end - after });
        for (const { entry } of entries.reverse()) yield entry;
      }
    }
  }
}

function* days({ first_day, last_day }: AuditHead): Generator<string> {
  for (let at = Date.parse(first_day); at <= Date.parse(last_day); at += DAY)
    yield new Date(at).toISOString().slice(0, 10);
}

function matches(entry: AuditEntry, { action, who, target, since, until }: AuditQuery): boolean {
  if (action !== undefined && entry.action !== action) return false;
  if (since !== undefined && Date.parse(entry.at) < Date.parse(since)) return false;
  if (until !== undefined && Date.parse(entry.at) >= Date.parse(until)) return false;
  if (who !== undefined && !has(`${nameOf(entry.who)}\n${entry.address ?? ""}`, who)) return false;
  return target === undefined || has(`${entry.target?.kind ?? ""} ${entry.target?.id ?? ""}`, target);
}

function has(text: string, part: string): boolean {
  return text.toLowerCase().includes(part.toLowerCase());
}

/** The fields of a line in the service's log. */
function fieldsOf({ by, action, target, before, after }: AuditEvent): Record<string, unknown> {
  return {
    action,
    who: nameOf(by),
    ...(typeof by !== "string" && by.address && { address: by.address }),
    ...(target && { [target.kind]: target.id }),
    ...(before != null && { before }),
    ...(after != null && { after }),
  };
}
