import type { EmittedChunks } from "./emitted-chunks.ts";
import type { EntityStatus } from "./entity-status.ts";

/** What a request to a job has done that came with a key: the same request again does nothing. */
export interface KeyedRequest {
  /** Hash of the job's id and the key. */
  readonly id: string;
  readonly job_id: string;
  /** When it was stored, ISO 8601. */
  readonly at: string;
  /** Hash of what it asked for. */
  readonly content: string;
  /** Number of an entry of the job's log before what it has done. */
  readonly after: number;
  /** The question that it was about; a message has none. */
  readonly answered?: {
    readonly case_id: string;
    readonly question_id: string;
    /** Where more people must give the same answer: how many have. */
    readonly agreed?: string;
    /** Where the request has not answered it, so that it was asked again: why, or "". */
    readonly again?: string;
    /** Where somebody else had answered it before: how. */
    readonly before?: string;
  };
  /** What its first response has shown of the job. */
  readonly shown?: ShownState;
  /** What its first response, where that is a stream, has shown at its start of a job that existed. */
  readonly began?: ShownState;
}

/** A job as a response has shown it: what of that may change later. */
export interface ShownState {
  readonly status: EntityStatus;
  /** When the job had changed last, ISO 8601. */
  readonly at: string;
  readonly cost: number;
  readonly error?: string;
  /** Keys of the questions that were open. */
  readonly asked?: readonly string[];
  readonly case_count: number;
  /** How many of its cases had ended, of those that the response lists. */
  readonly ended: number;
  /** Costs of the others, by their ids; 0 is omitted. */
  readonly costs?: Readonly<Record<string, number>>;
  /** Number of the last entry of the job's log before the response was sent, where that matters. */
  readonly until?: number;
  /** Of steps that were under way then: what a stream has shown of what they emit. */
  readonly emitted?: readonly EmittedChunks[];
}

/** A question of a job, as a request has met it: its answer has closed it, has added to it, or was none. */
export type AnsweredQuestion = NonNullable<KeyedRequest["answered"]>;
