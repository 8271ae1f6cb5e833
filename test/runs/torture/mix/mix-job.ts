import { type Scenario, TrialJob } from "../../../../src/cli/torture/trial.ts";
import { eventIds, type PlanKind } from "./plans.ts";

export type MixKind = PlanKind | "pair" | "family" | "listener";

/** A job of the mix, and what the test has done with it. */
export class MixJob extends TrialJob {
  readonly kind: MixKind;
  /** The answer to its question, unlike that of all other jobs. */
  readonly amount: number;
  override readonly answerFrom: number;
  /** Round from which it is stopped; undefined where it is not. */
  readonly stopFrom: number | undefined;
  isStopSent = false;
  /** Its stop is acknowledged. */
  isStopped = false;
  /** The job had not ended when its stop was acknowledged. */
  mustBeCancelled = false;
  /** Round from which its events are sent. */
  readonly eventsFrom: number;
  /** Number of its events that are acknowledged. */
  sent = 0;
  /** Whether an event is being sent: only one at a time. */
  isSending = false;

  constructor(
    id: string,
    scenario: Scenario,
    given: {
      readonly kind: MixKind;
      readonly amount: number;
      readonly answerFrom: number;
      readonly eventsFrom: number;
      readonly stopFrom?: number | undefined;
    },
  ) {
    super(id, scenario);
    this.kind = given.kind;
    this.amount = given.amount;
    this.answerFrom = given.answerFrom;
    this.eventsFrom = given.eventsFrom;
    this.stopFrom = given.stopFrom;
  }

  override get label(): string {
    return `job ${this.id}`;
  }

  /** The event to send next; undefined where none is left. */
  get nextEvent(): string | undefined {
    return this.kind === "listener" ? eventIds(this.id)[this.sent] : undefined;
  }

  override answerTo(): Record<string, unknown> {
    return { amount: this.amount };
  }
}
