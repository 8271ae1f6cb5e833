import type { Call } from "./call.ts";

/** Calls that the handler has issued while the record is replayed, and of which no end is recorded. */
export class PendingCalls {
  /** What lets each of those begin that wait until the record is replayed. */
  readonly #waiting = new Map<Call, () => void>();
  /** Those that began before that, as something of them is recorded, and have not ended. */
  readonly #ahead = new Set<Call>();

  /** Whether one waits until the record is replayed. */
  get areWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** Whether one began before the record is replayed. */
  get areAhead(): boolean {
    return this.#ahead.size > 0;
  }

  isAhead(call: Call): boolean {
    return this.#ahead.has(call);
  }

  /** Whether all that began before the record is replayed only wait for something that is stored. */
  get onlyWaitAhead(): boolean {
    for (const call of this.#ahead) if (!call.onlyWaits) return false;
    return true;
  }

  /** Resolves when a call may begin. */
  wait(call: Call): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.set(call, resolve);
    });
  }

  /** A call has ended. */
  ended(call: Call): void {
    this.#ahead.delete(call);
  }

  /** Lets those begin of which something is recorded; says whether there are any. */
  beginAhead(): boolean {
    let isAny = false;
    for (const [call, begin] of this.#waiting) {
      if (!call.hasTrace) continue;
      this.#waiting.delete(call);
      this.#ahead.add(call);
      isAny = true;
      begin();
    }
    return isAny;
  }

  beginAll(): void {
    for (const begin of this.#waiting.values()) begin();
    this.#waiting.clear();
  }

  /** One that waits and of which nothing is recorded; one of the same scope first. */
  unknown(like: Call | undefined): Call | undefined {
    const unknown = [...this.#waiting.keys()].filter((call) => !call.hasTrace);
    return unknown.find(({ caseId }) => caseId === like?.caseId) ?? unknown[0];
  }
}
