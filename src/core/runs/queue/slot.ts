import type { QueuedJob } from "./queued-job.ts";

/** What a run has, besides its slot, only while it works: its part of limits that hold for all instances. */
export interface SharedPart {
  rest(): Promise<void>;
  /** Takes the part again; where other runs have all of it, the result notifies the scheduler, and it is asked for again later. */
  retake(): Promise<(() => void) | undefined>;
}

/** What a slot needs of those who gave it out. */
interface SlotGiver {
  withdraw(job: QueuedJob, refuse: () => void): void;
  release(job: QueuedJob, seconds: number, isOver: boolean): void;
  takeAgain(job: QueuedJob, order?: number): Promise<Slot>;
  /** Is notified when jobs that were given slots are about to run code. */
  readonly watch: { used(): void } | undefined;
}

/** A slot that one job runs in; given up while the job only waits. */
export class Slot {
  /** When its job came. */
  readonly order: number;
  readonly #giver: SlotGiver;
  readonly #job: QueuedJob;
  #isHeld = true;
  #isLeft = false;
  #since = performance.now();
  #retaking: Promise<void> | undefined;
  #part: SharedPart | undefined;
  /** Settles once the part is given back. */
  #rested: Promise<void> | undefined;

  constructor(giver: SlotGiver, job: QueuedJob, order: number) {
    this.#giver = giver;
    this.#job = job;
    this.order = order;
  }

  /** From now on the run has this together with its slot. */
  share(part: SharedPart | undefined): void {
    this.#part = part;
  }

  /** The slot was not used. Where other jobs have all of a limit, `refuse` notifies the scheduler. */
  withdraw(refuse: () => void = () => {}): void {
    this.#isHeld = false;
    this.#giver.withdraw(this.#job, refuse);
  }

  /** Its job is about to run code. */
  use(): void {
    this.#giver.watch?.used();
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#giver.release(this.#job, (performance.now() - this.#since) / 1000, this.#isLeft);
    this.#rested = this.#part?.rest();
  }

  /** Releases the slot permanently: if it was waited for again, the next job gets it. */
  leave(): void {
    this.#isLeft = true;
    this.release();
  }

  /** Waits for a slot again, where it was given up. */
  retake(): Promise<void> {
    if (this.#isHeld) return Promise.resolve();
    this.#retaking ??= this.#comeBack().then(() => {
      this.#isHeld = true;
      this.#since = performance.now();
      this.#retaking = undefined;
      if (this.#isLeft) this.release();
    });
    return this.#retaking;
  }

  async #comeBack(): Promise<void> {
    // It has a key that it keeps, though it may have been refused that key before its turn came.
    const job = { ...this.#job, isFirst: false, isRefused: false };
    let order: number | undefined;
    for (;;) {
      order = (await this.#giver.takeAgain(job, order)).order;
      await this.#rested;
      const refuse = this.#isLeft ? undefined : await this.#part?.retake();
      if (!refuse) {
        this.use();
        return;
      }
      this.#giver.withdraw(job, refuse);
    }
  }
}
