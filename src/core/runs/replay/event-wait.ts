import * as v from "valibot";
import { toJsonValue } from "../../agents/json-value.ts";
import { assertKnown } from "../../agents/known-options.ts";
import type { ReceivedEvent, WaitOptions } from "../../agents/run-context.ts";
import { toMilliseconds } from "../../base/duration.ts";
import { isRecord } from "../../base/is-record.ts";
import type { Unit } from "../../entities/ledger.ts";
import {
  addWait,
  countEvents,
  type EventFilter,
  EventMatch,
  noteGiven,
  type ReceivedEvents,
  removeWait,
} from "../../entities/received-events.ts";
import { messageEvent } from "../../models/message-event.ts";
import { EventNameSchema, type StoredEvent } from "../../models/received-event.ts";
import type { BegunEntry, CallEntry } from "../../models/run-entry.ts";
import type { Call } from "./call.ts";
import type { CallScope } from "./call-scope.ts";
import { EventTimeoutError } from "./run-errors.ts";
import type { WaitEnd } from "./wait.ts";

/** The events that were sent to the service, as a job's handler gets them. */
export interface EventsOfJob extends Pick<ReceivedEvents, "find" | "given" | "isWaiting"> {
  /** Resolves when an event is given to a wait; `cancel` ends the wait for that. */
  next(waitId: string): { readonly ended: Promise<unknown>; cancel(): void };
}

/** What a handler passed to `job.waitFor`. */
export interface GivenWait {
  readonly name: string;
  readonly options: WaitOptions;
}

type Ended = Pick<CallEntry, "result" | "error">;

/** The options of a wait, checked; throws a `TypeError`. */
export function readWait({ name, options }: GivenWait): {
  readonly match: EventMatch;
  readonly since: string | undefined;
} {
  const checked = v.safeParse(EventNameSchema, name);
  if (!checked.success) throw new TypeError(`waitFor was given a name that ${checked.issues[0].message}`);
  const what = `The "where" of waitFor("${name}")`;
  const where = toJsonValue(options.where ?? {}, what);
  if (!isRecord(where)) throw new TypeError(`${what} must be an object`);
  if (!(options.deadline instanceof Date) && options.deadline !== undefined) toMilliseconds(options.deadline);
  return { match: new EventMatch(name, where as EventFilter), since: options.since?.toISOString() };
}

/** Waits for an event that was or will be sent to the service, or finds the one that is recorded. */
export async function waitForEvent(
  scope: CallScope,
  events: EventsOfJob,
  { given, createdAt }: { readonly given: GivenWait; readonly createdAt: string },
): Promise<ReceivedEvent<never>> {
  const { run } = scope;
  const { match, since = createdAt } = readWait(given);
  if (run.gate.isLive) assertKnown("waitFor", given.options, `waitFor("${match.name}")`);
  const call = scope.take("event", match.name, given.options.key);
  let entry: Ended | undefined = call.takeEntry();
  if (!entry) {
    await run.enter(call);
    entry = await new EventCall(scope, events, { call, match, since, options: given.options }).end();
  }
  await run.delivered(call);
  if (entry.error) throw new EventTimeoutError(entry.error.message, match.name);
  return entry.result as ReceivedEvent<never>;
}

interface EventCallParts {
  readonly call: Call;
  readonly match: EventMatch;
  readonly since: string;
  readonly options: WaitOptions;
}

/** What was found of a wait. */
type Found = Ended | "waits" | "again";

/** One call that waits for an event. */
class EventCall {
  readonly #scope: CallScope;
  readonly #events: EventsOfJob;
  readonly #call: Call;
  readonly #match: EventMatch;
  readonly #since: string;
  readonly #options: WaitOptions;
  readonly #waitId: string;
  readonly #waitsFor: "message" | "event";
  /** The event that the call is about to be given. */
  #reserved: string | undefined;

  constructor(scope: CallScope, events: EventsOfJob, { call, match, since, options }: EventCallParts) {
    this.#scope = scope;
    this.#events = events;
    this.#call = call;
    this.#match = match;
    const { run } = scope;
    // A failed call that is made again starts its wait over.
    const begun = call.isForgotten ? undefined : call.begun;
    this.#since = begun?.since ?? since;
    this.#options = options;
    this.#waitsFor = match.name === messageEvent(run.jobId) ? "message" : "event";
    this.#waitId = `${run.jobId}/${run.record.generation}/${call.position}`;
  }

  /** Waits until an event, or the end of the wait without one, is recorded. */
  async end(): Promise<Ended> {
    const { run } = this.#scope;
    let isOver = false;
    for (;;) {
      // Subscribed before the check, so that no event can be missed.
      const { ended, cancel } = this.#events.next(this.#waitId);
      let stopTimer = () => {};
      try {
        const found = await this.#look(isOver);
        if (found === "again") continue;
        if (found !== "waits") return found;
        const until = this.#begun!.until;
        const over = new Promise<void>((resolve) => {
          if (until === undefined) return;
          const watch = (): void => {
            stopTimer = run.clock.after(this.#left(until), () => {
              if (this.#isUntil && run.parts.clock().getTime() < Date.parse(until)) return watch();
              isOver = true;
              resolve();
            });
          };
          watch();
        });
        const isOpen = async ({ tx }: Unit): Promise<boolean> =>
          (await tx.get("EventWait", this.#waitId))?.event === null;
        const end = until === undefined ? undefined : this.#endOf(until);
        await run.activity.wait(() => Promise.race([ended, over]), { for: this.#waitsFor, end, isOpen });
      } finally {
        cancel();
        stopTimer();
      }
    }
  }

  /** The record of the beginning, unless it is that of a wait that failed. */
  get #begun() {
    return this.#call.isForgotten ? undefined : this.#call.begun;
  }

  /** Whether the deadline was given as a time of day, not as a duration. */
  get #isUntil(): boolean {
    return this.#options.deadline instanceof Date;
  }

  #endOf(until: string): WaitEnd {
    return { at: Date.parse(until), left: this.#isUntil ? undefined : this.#left(until) };
  }

  /** Setting the clock back does not make a wait of some duration longer. */
  #left(until: string): number {
    const { clock, wokenAt = 0 } = this.#scope.run.parts;
    const now = clock().getTime();
    return Date.parse(until) - (this.#isUntil ? now : Math.max(now, Date.parse(this.#begun!.at), wokenAt));
  }

  /** Records the event, the end of the wait without one, or that the call waits. */
  async #look(isOver: boolean): Promise<Found> {
    const { run } = this.#scope;
    const { taken } = run;
    const found = await run.ledger.read(() => this.#find());
    return run.ledger.write(async (unit): Promise<Found> => {
      const { tx } = unit;
      this.#reserve(undefined);
      const wait = await tx.get("EventWait", this.#waitId);
      if (wait) {
        const event = wait.event === null ? undefined : await tx.get("ReceivedEvent", wait.event);
        const isDue = isOver || (wait.until !== null && Date.parse(wait.until) <= Date.parse(unit.now));
        if (!event && !isDue) return "waits";
        await removeWait(unit, wait);
        return event ? this.#record(unit, event) : this.#expire(unit);
      }
      // Events that came since, and those that other calls of the job got since, were not considered.
      if ((await countEvents(tx, this.#match.name)) !== found.count) return "again";
      const { event } = found;
      if (event) {
        if (await this.#isGiven(unit, event.id)) return "again";
        // Another call may have reserved it meanwhile; from here to the reservation nothing is waited for.
        if (taken.has(event.id) && taken.get(event.id) !== this.#call) return "again";
        return this.#record(unit, event);
      }
      return this.#begin(unit, isOver);
    });
  }

  /** Searches the events received so far, unless the wait is stored: then the service matches new events to it. */
  async #find(): Promise<Awaited<ReturnType<EventsOfJob["find"]>>> {
    if (this.#begun && (await this.#events.isWaiting(this.#waitId))) return { count: -1, event: undefined };
    const { jobId, taken } = this.#scope.run;
    const skip = new Set(await this.#events.given(jobId));
    for (const [id, by] of taken) if (by !== this.#call) skip.add(id);
    const until = this.#begun?.until ?? null;
    return this.#events.find(this.#match, { since: this.#since, until, skip });
  }

  async #isGiven({ tx }: Unit, eventId: string): Promise<boolean> {
    for (const id of await tx.ids("EventWait", "event", eventId))
      if ((await tx.get("EventWait", id))?.job_id === this.#scope.run.jobId) return true;
    return false;
  }

  async #begin(unit: Unit, isOver: boolean): Promise<Found> {
    const { run } = this.#scope;
    const call = this.#call;
    const until = this.#begun ? this.#begun.until : readDeadline(this.#options.deadline, unit.now);
    if (until !== undefined && (isOver || Date.parse(until) <= Date.parse(unit.now)))
      return this.#expire(unit);
    const { jobId: job_id } = run;
    const wait = { id: this.#waitId, job_id, position: call.position, until: until ?? null };
    await addWait(unit, this.#match, wait);
    if (this.#begun) return "waits";
    const begun: Omit<BegunEntry, "at"> = {
      type: "begun",
      call: "event",
      ...call.fields,
      attempt: 1,
      since: this.#since,
      ...(until !== undefined && { until }),
    };
    await unit.record(job_id, begun);
    unit.afterwards(() => {
      call.begun = { ...begun, at: unit.now };
      call.isForgotten = undefined;
    });
    return "waits";
  }

  async #record(unit: Unit, event: StoredEvent): Promise<Ended> {
    this.#reserve(event.id);
    await noteGiven(unit, event.id, this.#scope.run.jobId);
    const { event_id: id, name, created_at: at, data } = event;
    // The stored event is for others too.
    return this.#store(unit, { event: event.id, result: { id, name, at, data: structuredClone(data) } });
  }

  /** Before it is stored, as another call of the job may look next; where the unit runs again, it looks again. */
  #reserve(eventId: string | undefined): void {
    const { taken } = this.#scope.run;
    if (this.#reserved !== undefined && taken.get(this.#reserved) === this.#call)
      taken.delete(this.#reserved);
    this.#reserved = eventId;
    if (eventId !== undefined) taken.set(eventId, this.#call);
  }

  #expire(unit: Unit): Promise<Ended> {
    const until = this.#begun?.until ?? unit.now;
    const message = `No event "${this.#match.name}" that fits was received before ${until}`;
    return this.#store(unit, { error: { name: "EventTimeoutError", message } });
  }

  async #store(unit: Unit, end: Ended & Pick<CallEntry, "event">): Promise<Ended> {
    const { run } = this.#scope;
    const started_at = this.#begun?.at;
    await unit.record(run.jobId, {
      ...{ type: "call", call: "event", ...this.#call.fields, ...(started_at && { started_at }), ...end },
    });
    unit.afterwards((seq) => run.gate.settle(this.#call, seq));
    return end;
  }
}

function readDeadline(deadline: WaitOptions["deadline"], now: string): string | undefined {
  if (deadline === undefined) return undefined;
  if (deadline instanceof Date) return deadline.toISOString();
  return new Date(Date.parse(now) + toMilliseconds(deadline)).toISOString();
}
