import type { Unit } from "../../entities/ledger.ts";
import type { RunRecord } from "./run-record.ts";

/** What its changes need of a run. */
interface ChangedRun {
  readonly jobId: string;
  readonly record: RunRecord;
  readonly gate: { readonly isBehindRecord: boolean };
}

/** What `job.changed` answers in a run. A new answer is stored with the next write: before anything that follows from it. */
export class Changes {
  readonly #run: ChangedRun;
  /** Answers that are not stored. */
  readonly #answers = new Map<string, boolean>();
  /** Settles when the write that stores them has ended; others wait for it. */
  #storing: Promise<void> | undefined;

  constructor(run: ChangedRun) {
    this.#run = run;
  }

  /** Whether the job takes the new way of a change of the code. */
  of(name: string): boolean {
    const { changes } = this.#run.record;
    const known = changes.get(name);
    if (known !== undefined) return known;
    const is = this.#run.gate.isBehindRecord;
    changes.set(name, is);
    this.#answers.set(name, is);
    return is;
  }

  get areStored(): boolean {
    return this.#answers.size === 0;
  }

  /** Has the caller's unit store them, and resolves with what ends that; nothing where others have stored them meanwhile. */
  async claim(): Promise<(() => void) | undefined> {
    while (!this.areStored && this.#storing) await this.#storing;
    if (this.areStored) return undefined;
    let resolve = () => {};
    this.#storing = new Promise((done) => {
      resolve = done;
    });
    return () => {
      this.#storing = undefined;
      resolve();
    };
  }

  async record(unit: Unit): Promise<void> {
    const stored = [...this.#answers];
    for (const [name, is] of stored)
      await unit.record(this.#run.jobId, { type: "mark", mark: "changed", name, is });
    unit.afterwards(() => {
      for (const [name] of stored) this.#answers.delete(name);
    });
  }

  /** Forgets the answers that are not stored: nothing followed from them. */
  forget(): void {
    this.#answers.clear();
  }
}
