import { rowTable } from "../../core/store/row-table.ts";
import type { Store, TableSpec, Transaction } from "../../core/store/store.ts";
import { type SpanPlace, spanIdOf, traceIdOf } from "./trace-context.ts";
import type { TraceSampler } from "./trace-sampler.ts";

/** The parent of a job's trace, stored so that a later process continues it. */
export interface JobTraceRow {
  readonly id: string;
  readonly trace_id: string;
  readonly parent_id: string;
  /** Whether the parent is exported, if it is not. */
  readonly sampled?: false;
  /** The parent's `tracestate`, if it has one. */
  readonly state?: string;
}

declare module "../../core/store/stored-types.ts" {
  interface Tables {
    JobTrace: JobTraceRow;
  }
}

export const JOB_TRACE_TABLE: TableSpec<JobTraceRow> = rowTable("JobTrace");

export interface JobPlace extends SpanPlace {
  readonly parentId: string | undefined;
}

/** Number of jobs whose trace is cached; others are read again. */
const MOST = 10_000;

/** The trace contexts of jobs. */
export class JobTraces {
  readonly #store: Store;
  readonly #sampler: TraceSampler;
  readonly #places = new Map<string, JobPlace>();

  constructor(store: Store, sampler: TraceSampler) {
    this.#store = store;
    this.#sampler = sampler;
  }

  /** Stores the parent of a new job's trace, in the transaction that stores the job. */
  async keep(tx: Transaction, jobId: string, parent: SpanPlace): Promise<void> {
    const { traceId, spanId, sampled, state } = parent;
    await tx.insert("JobTrace", {
      ...{ id: jobId, trace_id: traceId, parent_id: spanId },
      ...(!sampled && { sampled: false }),
      ...(state !== undefined && { state }),
    });
  }

  async forget(tx: Transaction, jobId: string): Promise<void> {
    this.#places.delete(jobId);
    if (await tx.get("JobTrace", jobId)) await tx.remove("JobTrace", jobId);
  }

  async find(jobId: string): Promise<JobPlace> {
    const known = this.#places.get(jobId);
    if (known) return known;
    const row = await this.#store.table("JobTrace").get(jobId);
    const traceId = row?.trace_id ?? traceIdOf(jobId);
    const place = {
      traceId,
      spanId: spanIdOf("job", jobId),
      sampled: this.#sampler(traceId, row && row.sampled !== false),
      parentId: row?.parent_id,
      state: row?.state,
    };
    if (this.#places.size >= MOST) this.#places.clear();
    this.#places.set(jobId, place);
    return place;
  }

  /** The trace context of the job of a stream; `undefined` if the stream belongs to no job. */
  async ofStream(stream: string): Promise<JobPlace | undefined> {
    const known = this.#places.get(stream);
    if (known) return known;
    return (await this.#store.table("Job").peek(stream)) && this.find(stream);
  }
}
