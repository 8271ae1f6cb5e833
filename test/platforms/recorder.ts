import type { Answer, Received } from "./http-server.ts";

/** One call as an emulator saw it. */
export interface SeenCall {
  readonly name: string;
  readonly mutating: boolean;
}

/** Intercepts calls: its result is returned instead; `cut` ends the connection. */
export type Fault = (call: SeenCall, request: Received) => Answer | "cut" | undefined;

/** What all emulators keep: the calls they saw, what was wrong with them, and the faults asked for. */
export class Recorder {
  readonly calls: SeenCall[] = [];
  readonly violations: string[] = [];
  /** Calls that were answered with an error. */
  readonly refused = new Set<SeenCall>();
  readonly #faults: Fault[] = [];
  /** Called after a change took effect and before it is answered: where a kill hurts most. */
  afterChange: ((call: SeenCall, count: number) => Promise<void> | void) | undefined;
  /** Asked before a change takes effect; where it says yes, none does, and the connection is cut. */
  cutBefore: ((call: SeenCall, count: number) => Promise<boolean>) | undefined;

  get changes(): string[] {
    return this.calls.filter((call) => call.mutating).map((call) => call.name);
  }

  /** Answers calls that match with a fault, so often. */
  fail(match: string | RegExp, answer: Answer | "cut", times = 1): void {
    let left = times;
    this.#faults.push((call) => {
      const hit = typeof match === "string" ? call.name === match : match.test(call.name);
      if (!hit || left === 0) return undefined;
      left -= 1;
      return answer;
    });
  }

  async handle(call: SeenCall, request: Received, act: () => Promise<Answer>): Promise<Answer | undefined> {
    this.calls.push(call);
    for (const fault of this.#faults) {
      const answer = fault(call, request);
      if (answer !== undefined) return answer === "cut" ? undefined : answer;
    }
    if (call.mutating && (await this.cutBefore?.(call, this.changes.length))) return undefined;
    const answer = await act();
    if (answer.status >= 300) this.refused.add(call);
    if (call.mutating && answer.status < 300) await this.afterChange?.(call, this.changes.length);
    return answer;
  }
}
