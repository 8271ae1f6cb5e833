import type { Reported } from "../../agents/step-report.ts";
import type { WrittenFile } from "../../models/file.ts";
import type { StepKind } from "../../models/model-use.ts";
import type { Emitter } from "../emissions/emissions.ts";
import type { Call } from "./call.ts";

/** A step under way. */
export interface StepUnderWay {
  readonly call: Call;
  readonly name: string;
  readonly attempt: number;
  /** What is set aside for it. */
  readonly cost: number;
  readonly kind?: StepKind | undefined;
  /** What its function has reported; what comes after its record does not count. */
  reported?: Reported;
  /** What its function has made: the job names them once it is recorded. */
  files?: WrittenFile[];
  /** Its result, where that is too large for its record. */
  result?: WrittenFile;
  /** Gets what its function emits: made by the first chunk. */
  emitter?: Emitter | undefined;
  /** What its function has emitted. */
  emitted?: readonly unknown[];
  /** Whether its function has ended, or was left behind: what it still emits does not count. */
  hasReturned?: boolean;
  /** When its function was called; empty before that. */
  startedAt: string;
  /** Whether what became of it is on its way into the store, and its cost was counted. */
  isRecorded: boolean;
  /**
   * The run that knows what the step's function does as done in it, wherever that is; `null` where none does, and nothing
   * before the function was called.
   */
  followedBy?: object | null | undefined;
}

/** What an attempt costs, as far as is known. */
export function costOf({ cost, reported }: StepUnderWay): number {
  return reported?.cost ?? cost;
}
