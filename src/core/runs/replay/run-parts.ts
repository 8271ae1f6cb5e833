import type { AsyncLocalStorage } from "node:async_hooks";
import type { Logger } from "../../base/log.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { Files } from "../../entities/files.ts";
import type { ReadResult } from "../../entities/large-results.ts";
import type { Ledger } from "../../entities/ledger.ts";
import type { AccountRef } from "../../models/account.ts";
import type { Code } from "../../models/job.ts";
import type { JobInstructions } from "../../models/job-instructions.ts";
import type { Emissions } from "../emissions/emissions.ts";
import type { Slot } from "../queue/slot.ts";
import type { TraceSource } from "../traced-call.ts";
import type { Doing } from "./activity.ts";
import type { StepUnderWay } from "./step-under-way.ts";
import type { SuspensionTimes } from "./suspension.ts";

/** What a run is made of. */
export interface RunParts {
  readonly jobId: string;
  /** Slug of its agent. */
  readonly agent: string;
  /** Which of the job's runs this is, from 1. */
  readonly epoch: number;
  readonly instructions: JobInstructions | null;
  readonly account: AccountRef;
  /** The access that started the job, where that sees only a part. */
  readonly access?: string | null | undefined;
  /** Whether what it costs counts for its workspace. */
  readonly isBudgeted?: boolean | undefined;
  readonly slot: Slot;
  readonly ledger: Ledger;
  /** Keeps the files of jobs; absent in a rehearsal. */
  readonly files?: Files | undefined;
  /** Reads a recorded result that is stored apart from its record. */
  readonly readResult?: ReadResult | undefined;
  /** Makes the log of the run: called once, when something is logged. */
  readonly openLog: () => Logger;
  readonly clock: () => Date;
  readonly startTimer: StartTimer;
  /** Takes secrets out of errors before they are stored. */
  readonly redact: (text: string) => string;
  /** Milliseconds that the handler gets to end by itself once the run must end. */
  readonly stopGrace: number;
  /** Milliseconds that the handler may work; time in which it only waits does not count. */
  readonly timeout: number | undefined;
  /** Knows the step in whose function something is done, where that is worth its cost. */
  readonly insides?: AsyncLocalStorage<StepUnderWay> | undefined;
  /** Whether calls inside of steps are found wherever they are made. */
  readonly isStrict?: boolean | undefined;
  /** Whether the handler is in a process of its own, which follows the functions of its steps. */
  readonly isIsolated?: boolean | undefined;
  /** Whether it is known from the beginning that the handler may read the job or a case. */
  readonly mayRead?: boolean | undefined;
  /** Called when it has read one, which was not known. */
  readonly onRead?: (() => void) | undefined;
  /** The agent's version and the fingerprint of its code. */
  readonly code: Code;
  /** Milliseconds that a rehearsal waits for a recorded call; a run that is none has what it needs. */
  readonly patience?: number;
  /** How the run leaves memory while it only waits, asked for when it does; where it gives nothing, the run stays. */
  readonly suspension?: (() => SuspensionTimes | undefined) | undefined;
  /** Milliseconds that the handler had worked before it left memory. @default 0 */
  readonly worked?: number | undefined;
  /** Where instances share a store: takes the answers that were stored since the record was read. */
  readonly readAnswers?: (() => Promise<void>) | undefined;
  /** The time up to which its waits are over, in milliseconds since 1970, where the clock was set back meanwhile. */
  readonly wokenAt?: number | undefined;
  /** Called before a step begins: abandons the run where another instance may have claimed its job by now. */
  readonly checkLease?: (() => void) | undefined;
  /** Is notified what the run is doing, if that must be known after a crash. */
  readonly doing?: Doing | undefined;
  /** Headers by which other services continue the trace at a call; absent where nothing makes spans. */
  readonly trace?: TraceSource | undefined;
  /** Gets what steps emit; absent where none of them runs. */
  readonly emissions?: Emissions;
}
