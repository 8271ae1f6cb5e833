import type { AnswerEntry, AttemptEntry, BegunEntry, CallEntry } from "../../models/run-entry.ts";
import type { SameCalls } from "./scope-record.ts";

export type CallKind = CallEntry["call"];

/** What identifies a call: its scope, its kind, its name or key, and which of these it is. */
export interface CallIdentity {
  /** The case, or nothing for the job itself. */
  readonly caseId: string | undefined;
  readonly kind: CallKind;
  /** As it is recorded: without secrets. */
  readonly name: string;
  readonly key: string | undefined;
  /** From 0. */
  readonly n: number;
  readonly position: number;
}

/** Tries of a step so far. */
export interface Tries {
  /** Failed since the step was last begun afresh: these count against its retries. */
  failed: number;
  /** The number of the last try that failed. */
  last: number;
  /** Line of the log that told of it. */
  line: number;
  /** When the next one begins, where the pause before it was not over. */
  pauseUntil: string | undefined;
  /** Ends of the process in that pause: these cut no try short. */
  paused: number;
}

/** Who waits for the end of a call. */
interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

/** A call of a handler: what is recorded of it, and where it stands in the present run. */
export class Call implements CallIdentity {
  readonly caseId: string | undefined;
  readonly kind: CallKind;
  readonly name: string;
  readonly key: string | undefined;
  readonly n: number;
  readonly position: number;

  /** How it ended, until the handler has taken that up. */
  entry: CallEntry | undefined;
  answer: AnswerEntry | undefined;
  begun: BegunEntry | undefined;
  tries: Tries | undefined;
  /** Whether it failed, and is to be made again. */
  isForgotten = false;
  /** Whether it was made outside of any turn: after waiting for something that is not recorded. */
  isOutside = false;
  /** Recorded by version 0.1.0, which did not tell that. */
  isOld = false;
  /** Milliseconds from the beginning of the process, or of the job, until it was made, as far as that is recorded. */
  delay = 0;
  /** Line of the log that ended it, from 0; of a call that ended in this run, nothing. */
  line: number | undefined;

  /** The line up to which the log had been given back when the handler made the call. */
  madeAt = -1;
  isMade = false;
  /** The calls of its kind and name; set when it is made. */
  same: SameCalls | undefined;
  /** Whether its end is stored. */
  isDue = false;
  /** Whether its end may be given to the handler once it is due. */
  isReady = true;
  isDelivered = false;
  #waiter: Waiter | undefined;

  constructor(identity: CallIdentity) {
    this.caseId = identity.caseId;
    this.kind = identity.kind;
    this.name = identity.name;
    this.key = identity.key;
    this.n = identity.n;
    this.position = identity.position;
  }

  /** Whether anything was recorded of it before it ended. */
  get hasTrace(): boolean {
    return this.begun !== undefined || this.tries !== undefined || this.isForgotten;
  }

  /** What each of its entries says of which call it is. */
  get fields(): Pick<AttemptEntry, "case_id" | "position" | "name" | "key" | "n" | "outside"> {
    return {
      case_id: this.caseId,
      position: this.position,
      name: this.name,
      key: this.key,
      n: this.n,
      outside: this.isOutside ? true : undefined,
    };
  }

  /** For people. */
  get label(): string {
    const scope = this.caseId === undefined ? "" : ` of case "${this.caseId}"`;
    const which = this.n > 0 ? ` (number ${this.n + 1} of that name)` : "";
    return `${this.kind} "${this.key ?? this.name}"${scope}${which}`;
  }

  /** How it ended, where that is recorded; the record is kept no longer. */
  takeEntry(): CallEntry | undefined {
    const { entry } = this;
    this.entry = undefined;
    return entry;
  }

  /** Settles when its end is delivered, which must not have happened. */
  wait(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiter = { resolve, reject };
    });
  }

  deliver(): void {
    this.isDelivered = true;
    this.same!.open--;
    this.#waiter?.resolve();
  }

  /** It was refused before it began; nothing of it is recorded. */
  giveUp(): void {
    this.same!.open--;
  }

  /** The run ends before it is delivered. */
  refuse(error: Error): void {
    this.#waiter?.reject(error);
  }
}
