import type { Store, TableSpec, Transaction } from "../../core/store/store.ts";
import { type SpanPlace, spanIdOf, traceIdOf } from "./trace-context.ts";

/** What a job's trace hangs from, kept so that a later process continues it. */
export interface JobTraceRow {
  readonly id: string;
  readonly trace_id: string;
  readonly parent_id: string;
}

declare module "../../core/store/store.ts" {
  interface Tables {
    JobTrace: JobTraceRow;
  }
}

export const JOB_TRACE_TABLE: TableSpec<JobTraceRow> = {
  name: "JobTrace",
  entity: false,
  index: () => ({}),
  facets: [],
  sorted: [],
};

export interface JobPlace extends SpanPlace {
  readonly parentId: string | undefined;
}

/** Jobs whose place is remembered; others are read again. */
const MOST = 10_000;

/** Where the spans of jobs stand. */
export class JobTraces {
  readonly #store: Store;
  readonly #places = new Map<string, JobPlace>();

  constructor(store: Store) {
    this.#store = store;
  }

  /** Keeps what a new job was started by, in the transaction that stores it. */
  async keep(tx: Transaction, jobId: string, parent: SpanPlace): Promise<void> {
    await tx.insert("JobTrace", { id: jobId, trace_id: parent.traceId, parent_id: parent.spanId });
  }

  async forget(tx: Transaction, jobId: string): Promise<void> {
    this.#places.delete(jobId);
    if (await tx.get("JobTrace", jobId)) await tx.remove("JobTrace", jobId);
  }

  async find(jobId: string): Promise<JobPlace> {
    const known = this.#places.get(jobId);
    if (known) return known;
    const row = await this.#store.table("JobTrace").get(jobId);
    const place = {
      traceId: row?.trace_id ?? traceIdOf(jobId),
      spanId: spanIdOf("job", jobId),
      parentId: row?.parent_id,
    };
    if (this.#places.size >= MOST) this.#places.clear();
    this.#places.set(jobId, place);
    return place;
  }

  /** The place where it is known already; looks it up for the next time otherwise. */
  peek(jobId: string): JobPlace | undefined {
    const known = this.#places.get(jobId);
    if (!known) void this.find(jobId).catch(() => {});
    return known;
  }
}
