import type { AuditLog } from "../../audit/audit-log.ts";
import { type Actor, nameOf } from "../../audit/caller.ts";
import type { Jobs } from "../../entities/jobs.ts";
import type { Ledger } from "../../entities/ledger.ts";
import type { FailureMark } from "../../models/own-rows.ts";
import type { Store } from "../../store/store.ts";

/** Marks by reason. */
export type Marks = ReadonlyMap<string, FailureMark>;

/** What is decided; `until` is when the last job failed that is known, ISO 8601. */
export type Decision =
  | { readonly state: "muted" | "open" }
  | { readonly state: "resolved"; readonly until: string };

const ACTIONS = { resolved: "failure.resolve", muted: "failure.mute", open: "failure.reopen" } as const;

/** What people have decided about reasons of failures. */
export class FailureMarks {
  readonly #store: Store;
  readonly #ledger: Ledger;
  readonly #audit: AuditLog;

  constructor(store: Store, ledger: Ledger, audit: AuditLog) {
    this.#store = store;
    this.#ledger = ledger;
    this.#audit = audit;
  }

  /** All of them. */
  async read(): Promise<Marks> {
    const { items } = await this.#store.table("FailureMark").list({ limit: Number.POSITIVE_INFINITY });
    return new Map(items.map((mark) => [mark.id, mark]));
  }

  /**
   * Marks a reason, or opens it again. What is resolved are the failures up to a time, so that a request that comes twice
   * hides none that was not known.
   */
  set(failure: string, decision: Decision, by: Actor): Promise<FailureMark | undefined> {
    const { state } = decision;
    const until = state === "resolved" ? decision.until : null;
    return this.#ledger.write(async (unit) => {
      const before = await unit.tx.get("FailureMark", failure);
      const isSame =
        (before?.state ?? "open") === state && (until === null || until <= (before?.until ?? ""));
      if (isSame) return before;
      const mark = state === "open" ? undefined : { id: failure, state, by: nameOf(by), at: unit.now, until };
      if (!mark) await unit.tx.remove("FailureMark", failure);
      else if (before) await unit.tx.change("FailureMark", failure, () => mark);
      else await unit.tx.insert("FailureMark", mark);
      await this.#audit.write(unit, { by, action: ACTIONS[state], target: { kind: "failure", id: failure } });
      return mark;
    });
  }
}

/** Whether people want to hear of what failed last for a reason. */
export function isHeard(mark: FailureMark | undefined, lastAt: string | null): boolean {
  if (mark?.state === "muted") return false;
  return mark === undefined || hasReturned(mark, lastAt);
}

/** Whether jobs have failed for a reason after it was resolved. */
function hasReturned({ until }: FailureMark, lastAt: string | null): boolean {
  return until !== null && lastAt !== null && lastAt > until;
}

/** The jobs that failed since a time, by reason: without those that people do not want to hear of. */
export async function countHeard(jobs: Jobs, since: number, marks: Marks): Promise<Record<string, number>> {
  const failed = { status: "failed", finished_at: { gte: since } };
  const counts = await jobs.countBy("failure", { where: failed });
  const heard = Object.entries(counts).filter(([failure, count]) => failure !== "null" && count > 0);
  const kept = await Promise.all(
    heard.map(async ([failure, count]): Promise<[string, number]> => {
      const mark = marks.get(failure);
      if (mark === undefined) return [failure, count];
      if (mark.until === null) return [failure, 0];
      const gte = Math.max(since, Date.parse(mark.until) + 1);
      const { total } = await jobs.list({ where: { ...failed, failure, finished_at: { gte } }, limit: 0 });
      return [failure, total];
    }),
  );
  return Object.fromEntries(kept.filter(([, count]) => count > 0));
}
