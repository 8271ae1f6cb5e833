import type { Case } from "../models/case.ts";
import type { StoredJob } from "../models/job.ts";
import type { RunEntry } from "../models/run-entry.ts";
import type { Redactor } from "../redactor.ts";
import type { Transaction } from "../store/store.ts";
import type { Change } from "./change.ts";

/*
 * Agent code may write a secret that it was given. Only what agents and people write is cleaned: a secret that happens
 * to be a word such as "completed" must not change a status or the name of a field.
 */

const JOB_FIELDS = ["payload", "result", "error", "responses"] as const;
const CASE_FIELDS = ["name", "description", "final_delivery", "question"] as const;
const UPDATE_FIELDS = ["name", "payload", "error"] as const;
const ENTRY_FIELDS = ["name", "result", "error", "message", "reason", "answer"] as const;

/** A transaction that lets no secret through. */
export function scrubbing(tx: Transaction, redactor: Redactor): Transaction {
  const clean = <T>(table: string, entity: T): T => {
    if (table === "Job") return scrubJob(entity as StoredJob, redactor) as T;
    return table === "Case" ? (scrubCase(entity as Case, redactor) as T) : entity;
  };
  return {
    get: (table, id) => tx.get(table, id),
    insert: (table, entity) => tx.insert(table, clean(table, entity)),
    change: (table, id, fn) =>
      tx.change(table, id, (current) => {
        const next = fn(current);
        return next && clean(table, next);
      }),
    remove: (table, id) => tx.remove(table, id),
    append: (log, key, entry) => tx.append(log, key, entry),
    clear: (log, key) => tx.clear(log, key),
  };
}

export function scrubJob(job: StoredJob, redactor: Redactor): StoredJob {
  return cleanFields(job, JOB_FIELDS, redactor);
}

export function scrubCase(item: Case, redactor: Redactor): Case {
  const clean = cleanFields(item, CASE_FIELDS, redactor);
  if (redactor.json(item.updates) === item.updates) return clean;
  return { ...clean, updates: item.updates.map((update) => cleanFields(update, UPDATE_FIELDS, redactor)) };
}

export function scrubEntry(entry: RunEntry, redactor: Redactor): RunEntry {
  return cleanFields(entry, ENTRY_FIELDS as readonly string[] as readonly (keyof RunEntry)[], redactor);
}

/** What participants and observers are told of a change. */
export function scrubChange(change: Change, redactor: Redactor): Change {
  if ("job" in change) return { ...change, job: scrubJob(change.job, redactor) } as Change;
  const item = scrubCase(change.case, redactor);
  if (change.kind !== "case:changed" || !change.update) return { ...change, case: item } as Change;
  return { ...change, case: item, update: cleanFields(change.update, UPDATE_FIELDS, redactor) };
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
