import type { Redactor } from "../base/redactor.ts";
import type { StoredCase } from "../models/case.ts";
import type { CaseNodeUpdate } from "../models/case-node-update.ts";
import type { StoredJob } from "../models/job.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { IndexValue, LogName, Logs, TableName, Tables, Transaction } from "../store/store.ts";
import type { Change } from "./change.ts";

/*
 * Agent code may write a secret that it received. Only text from agents and people is redacted: a secret that
 * happens to be a word such as "completed" must not change a status or the name of a field.
 */

const JOB_FIELDS = ["payload", "result", "error", "responses"] as const;
const CASE_FIELDS = ["name", "description", "final_delivery", "question", "last_error"] as const;
const UPDATE_FIELDS = ["name", "payload", "error"] as const;
const ENTRY_FIELDS = ["name", "result", "error", "message", "reason", "answer", "input", "model"] as const;

/** Redacts secrets in what one unit stores and reports; values that were already checked are skipped. */
export class Scrub {
  readonly #redactor: Redactor;
  /** Created for the first entity: most units contain only lines of a run log. */
  #clean: Map<object, object> | undefined;

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  job(job: StoredJob): StoredJob {
    return this.#once(job, JOB_FIELDS);
  }

  case(item: StoredCase): StoredCase {
    return this.#once(item, CASE_FIELDS);
  }

  /** The entry without secrets, with its JSON where that was made to look for them. */
  entry(entry: RunEntry): { readonly entry: RunEntry; readonly json?: string | undefined } {
    // It contains no text from agents or people; what is read was redacted when it was stored, and is given back as it was.
    if (entry.type === "status" || (entry.type === "call" && entry.call === "read")) return { entry };
    const json = jsonOf(entry);
    // Where the whole has none, no field has one: most entries are serialized, and searched, once.
    if (json !== undefined && !this.#redactor.finds(json)) return { entry, json };
    const fields = ENTRY_FIELDS as readonly string[] as readonly (keyof RunEntry)[];
    return { entry: cleanFields(entry, fields, this.#redactor) };
  }

  /** What participants and observers receive about a change. */
  change(change: Change): Change {
    if ("job" in change) {
      const job = this.job(change.job);
      return job === change.job ? change : ({ ...change, job } as Change);
    }
    if (change.kind === "budget:reached") return change;
    const item = this.case(change.case);
    if (change.kind !== "case:changed" || !change.update) return { ...change, case: item } as Change;
    return { ...change, case: item, update: this.update(change.update) };
  }

  entity<T>(table: string, entity: T): T {
    if (table === "Job") return this.job(entity as StoredJob) as T;
    return table === "Case" ? (this.case(entity as StoredCase) as T) : entity;
  }

  update(update: CaseNodeUpdate): CaseNodeUpdate {
    return this.#once(update, UPDATE_FIELDS);
  }

  #once<T extends object>(value: T, fields: readonly (keyof T)[]): T {
    this.#clean ??= new Map();
    const known = this.#clean.get(value);
    if (known) return known as T;
    const made = cleanFields(value, fields, this.#redactor);
    this.#clean.set(value, made);
    if (made !== value) this.#clean.set(made, made);
    return made;
  }
}

/** A transaction that redacts secrets. */
export class ScrubbedTransaction implements Transaction {
  readonly #tx: Transaction;
  readonly #scrub: Scrub;

  constructor(tx: Transaction, scrub: Scrub) {
    this.#tx = tx;
    this.#scrub = scrub;
  }

  get<K extends TableName>(table: K, id: string): Promise<Tables[K] | undefined> {
    return this.#tx.get(table, id);
  }

  ids<K extends TableName>(table: K, field: string, value: IndexValue): Promise<string[]> {
    return this.#tx.ids(table, field, value);
  }

  insert<K extends TableName>(table: K, entity: Tables[K]): Promise<void> {
    return this.#tx.insert(table, this.#scrub.entity(table, entity));
  }

  change<K extends TableName>(
    table: K,
    id: string,
    fn: (current: Tables[K]) => Tables[K] | undefined,
  ): Promise<Tables[K]> {
    return this.#tx.change(table, id, (current) => {
      const next = fn(current);
      return next && this.#scrub.entity(table, next);
    });
  }

  remove<K extends TableName>(table: K, id: string): Promise<boolean> {
    return this.#tx.remove(table, id);
  }

  last<K extends LogName>(log: K, key: string): Promise<number> {
    return this.#tx.last(log, key);
  }

  append<K extends LogName>(log: K, key: string, entry: Logs[K]): Promise<number> {
    if (log !== "CaseUpdate") return this.#tx.append(log, key, entry);
    return this.#tx.append("CaseUpdate", key, this.#scrub.update(entry as CaseNodeUpdate));
  }

  clear<K extends LogName>(log: K, key: string): Promise<void> {
    return this.#tx.clear(log, key);
  }
}

function cleanFields<T extends object>(value: T, fields: readonly (keyof T)[], redactor: Redactor): T {
  let clean = value;
  for (const field of fields) {
    const before = value[field];
    if (before === undefined || before === null) continue;
    const after = redactor.json(before);
    if (after !== before) clean = { ...clean, [field]: after };
  }
  return clean;
}

/** Nothing where it cannot be stored: the store says what is wrong with it. */
function jsonOf(entry: RunEntry): string | undefined {
  try {
    return JSON.stringify(entry);
  } catch {
    return undefined;
  }
}
