import type { Logger } from "../base/log.ts";
import type { Cases } from "../entities/cases.ts";
import type { Hooks } from "../entities/hooks.ts";
import type { Ledger } from "../entities/ledger.ts";
import { sendNotices } from "../entities/question-people.ts";
import { nextNotice } from "../models/question.ts";
import { type StartTimer, startTimer as systemTimer } from "./run/timer.ts";

/** Questions that are asked for together. */
const BATCH = 100;
/** Milliseconds after which the index is asked again, where something could not be stored. */
const AGAIN = 5000;

interface NoticeParts {
  readonly cases: Cases;
  readonly ledger: Ledger;
  readonly hooks: Hooks;
  readonly log: Logger;
  readonly clock: () => Date;
  readonly startTimer?: StartTimer;
  readonly isClosed: () => boolean;
}

/**
 * Sends the reminders of open questions, and passes them on, when it is time: whether their jobs are in memory or not.
 * The index of the cases says which is next. What is sent is stored with the question, so each is sent once, whichever
 * instance does it.
 */
export class QuestionNotices {
  readonly #parts: NoticeParts;
  /** When the timer fires, by the service's clock. */
  #next = Number.POSITIVE_INFINITY;
  #stopTimer: () => void = () => {};
  #looking: Promise<void> | undefined;
  #looksAgain = false;

  constructor(parts: NoticeParts) {
    this.#parts = parts;
    parts.hooks.on("case:changed", ({ case: item }) => {
      const at = item.question && item.status === "awaiting" ? nextNotice(item.question) : null;
      if (at !== null) this.#expect(at);
    });
  }

  /** Sends what is due, and sets the timer for what is next. */
  look(): Promise<void> {
    // A timer that fires meanwhile may be about what was not due when this began.
    if (this.#looking) this.#looksAgain = true;
    this.#looking ??= this.#look()
      .catch((error: unknown) => {
        if (this.#parts.isClosed()) return;
        this.#parts.log.warn("reminders of questions could not be sent; this is tried again", { error });
        this.#expect(this.#now() + AGAIN);
      })
      .finally(() => {
        this.#looking = undefined;
        if (!this.#looksAgain) return;
        this.#looksAgain = false;
        return this.look();
      });
    return this.#looking;
  }

  close(): void {
    this.#stopTimer();
  }

  async #look(): Promise<void> {
    const { cases, ledger, isClosed } = this.#parts;
    this.#stopTimer();
    this.#next = Number.POSITIVE_INFINITY;
    while (!isClosed()) {
      const { items } = await cases.list({
        where: { notice_at: { gte: 0 } },
        sort: "notice_at",
        limit: BATCH,
      });
      const due = items.filter(({ question }) => (nextNotice(question!) ?? 0) <= this.#now());
      for (const { id } of due) await ledger.write((unit) => sendNotices(unit, id));
      const [next] = items.slice(due.length);
      if (next) this.#expect(nextNotice(next.question!)!);
      if (due.length < BATCH) return;
    }
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }

  #expect(at: number): void {
    if (at >= this.#next || this.#parts.isClosed()) return;
    const { startTimer = systemTimer } = this.#parts;
    this.#stopTimer();
    this.#next = at;
    this.#stopTimer = startTimer(Math.max(at - this.#now(), 0), () => void this.look(), "schedule");
  }
}
