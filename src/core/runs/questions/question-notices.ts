import type { Logger } from "../../base/log.ts";
import { oneAtATime } from "../../base/one-at-a-time.ts";
import { SteadyClock } from "../../base/steady-clock.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { Cases } from "../../entities/cases.ts";
import type { Hooks } from "../../entities/hooks.ts";
import type { Ledger } from "../../entities/ledger.ts";
import { sendNotices } from "../../entities/question-people.ts";
import { nextNotice, type Question } from "../../models/question.ts";

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
  readonly startTimer: StartTimer;
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
  readonly #steady: SteadyClock;

  constructor(parts: NoticeParts) {
    this.#parts = parts;
    this.#steady = new SteadyClock(parts.clock);
    parts.hooks.on("case:changed", ({ case: item }) => {
      const at = item.question && item.status === "awaiting" ? nextNotice(item.question) : null;
      if (at !== null) this.#expect(at);
    });
  }

  /** Sends what is due, and sets the timer for what is next. */
  readonly look = oneAtATime(() =>
    this.#look().catch((error: unknown) => {
      if (this.#parts.isClosed()) return;
      this.#parts.log.warn("reminders of questions could not be sent; this is tried again", { error });
      this.#expect(this.#now() + AGAIN);
    }),
  );

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
        joins: "now",
      });
      let next: number | undefined;
      let due = 0;
      for (const { id, question } of items) {
        const [at, time] = [nextNotice(question!) ?? 0, this.#timeOf(question!)];
        if (at > time) {
          next = Math.min(at - time, next ?? at - time);
          continue;
        }
        due++;
        await ledger.write((unit) => sendNotices(unit, id, time));
      }
      if (next !== undefined) this.#expect(this.#now() + next);
      if (due < BATCH) return;
    }
  }

  /** What time it is to a question: where the clock was set back since it was asked, its waits get no longer by that. */
  #timeOf({ asked_at }: Question): number {
    const now = this.#now();
    return Date.parse(asked_at) > now ? this.#steady.now() : now;
  }

  #now(): number {
    return this.#parts.clock().getTime();
  }

  #expect(at: number): void {
    if (at >= this.#next || this.#parts.isClosed()) return;
    const { startTimer } = this.#parts;
    this.#stopTimer();
    this.#next = at;
    this.#stopTimer = startTimer(Math.max(at - this.#now(), 0), () => void this.look(), "schedule");
  }
}
