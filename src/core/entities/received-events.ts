import { hash } from "node:crypto";
import { ServiceError } from "../base/errors.ts";
import { inOrder } from "../base/in-order.ts";
import { messageEvent } from "../models/message-event.ts";
import type { EventName, EventWait, StoredEvent } from "../models/received-event.ts";
import type { ListQuery, Store, Transaction } from "../store/store.ts";
import { laterOf } from "../store/timestamp.ts";
import type { Unit } from "./ledger.ts";

/** Values that fields of an event must have, by name or dotted path. */
export type EventFilter = Readonly<Record<string, unknown>>;

/** Events read per page when older ones are searched. */
const PAGE = 200;

/** Jobs that are noted with an event that they were given: it may be given to 100,000. */
const MOST_NOTED = 20;

/** What is compared of an event: the paths in order, and their values by name. */
export class EventMatch {
  readonly name: string;
  readonly paths: readonly string[];
  /** The name and the paths. */
  readonly shape: string;
  /** The name, and a hash of the paths and their values. */
  readonly key: string;

  constructor(name: string, where: EventFilter) {
    this.name = name;
    this.paths = Object.keys(where).sort();
    this.shape = `${name}/${JSON.stringify(this.paths)}`;
    this.key = keyOf(
      name,
      this.paths,
      this.paths.map((path) => where[path]),
    );
  }

  fits(event: Pick<StoredEvent, "name" | "data">): boolean {
    return matchOf(event, this.paths) === this.key;
  }
}

/** The key of the waits that an event fits, among those that compare these paths; nothing where it has no such field. */
function matchOf(
  { name, data }: Pick<StoredEvent, "name" | "data">,
  paths: readonly string[],
): string | undefined {
  const values = paths.map((path) => valueAt(data, path));
  return values.includes(undefined) ? undefined : keyOf(name, paths, values);
}

function keyOf(name: string, paths: readonly string[], values: readonly unknown[]): string {
  if (paths.length === 0) return name;
  return `${name}/${hash("sha256", JSON.stringify(inOrder([paths, values])), "base64url")}`;
}

function valueAt(data: Record<string, unknown>, path: string): unknown {
  if (Object.hasOwn(data, path)) return data[path];
  let at: unknown = data;
  for (const key of path.split(".")) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as Record<string, unknown>)[key];
  }
  return at;
}

/**
 * Stores an event inside a unit and gives it to the calls that wait for one like it, one of each job. The same event
 * again changes nothing. `waits` are the waits that it was given to.
 */
export async function receiveEvent(
  unit: Unit,
  { name, event_id, data }: Pick<StoredEvent, "name" | "event_id" | "data">,
): Promise<{ readonly event: StoredEvent; readonly waits: readonly EventWait[] }> {
  const { tx } = unit;
  const id = `${name}/${event_id}`;
  const before = await tx.get("ReceivedEvent", id);
  if (before) return { event: sameEvent(before, data), waits: [] };
  const known = await nameOf(tx, name);
  const created_at = laterOf(unit.now, known.last_at);
  const received: StoredEvent = { id, name, event_id, n: known.count + 1, created_at, data };
  const waits = await firstWaits(tx, received, known.shapes);
  const jobs = waits.slice(0, MOST_NOTED).map(({ job_id }) => job_id);
  const event = jobs.length > 0 ? { ...received, jobs } : received;
  await tx.insert("ReceivedEvent", event);
  await tx.change("EventName", name, (row) => ({ ...row, count: event.n, last_at: created_at }));
  for (const wait of waits) await tx.change("EventWait", wait.id, (row) => ({ ...row, event: id }));
  return { event, waits };
}

/** Notes inside a unit that a job was given an event, unless enough jobs are noted with it. */
export async function noteGiven({ tx }: Unit, id: string, jobId: string): Promise<void> {
  const event = await tx.get("ReceivedEvent", id);
  const { jobs = [] } = event ?? {};
  if (!event || jobs.length >= MOST_NOTED || jobs.includes(jobId)) return;
  await tx.change("ReceivedEvent", id, (row) => ({ ...row, jobs: [...jobs, jobId] }));
}

function sameEvent(before: StoredEvent, data: unknown): StoredEvent {
  if (JSON.stringify(inOrder(before.data)) === JSON.stringify(inOrder(data))) return before;
  throw new ServiceError(
    "invalid_request",
    `Event "${before.name}" with id "${before.event_id}" already exists with different data`,
    { status: 409, detail: "Send it with a new id, or repeat the original request unchanged." },
  );
}

/** The waits that an event fits: of those of one job the one that was made first. */
async function firstWaits(
  tx: Transaction,
  event: StoredEvent,
  shapes: EventName["shapes"],
): Promise<readonly EventWait[]> {
  const first = new Map<string, EventWait>();
  for (const paths of shapes) {
    const match = matchOf(event, paths);
    if (match === undefined) continue;
    for (const id of await tx.ids("EventWait", "match", match)) {
      const wait = (await tx.get("EventWait", id))!;
      const isOpen = wait.event === null && (wait.until === null || event.created_at <= wait.until);
      const other = first.get(wait.job_id);
      if (isOpen && (!other || wait.position < other.position)) first.set(wait.job_id, wait);
    }
  }
  return [...first.values()];
}

async function nameOf(tx: Transaction, id: string): Promise<EventName> {
  const known = await tx.get("EventName", id);
  if (known) return known;
  const made: EventName = { id, count: 0, last_at: "", shapes: [] };
  await tx.insert("EventName", made);
  return made;
}

/** Number of events of a name that were received, inside a unit. */
export async function countEvents(tx: Transaction, name: string): Promise<number> {
  return (await tx.get("EventName", name))?.count ?? 0;
}

/** Stores inside a unit that a call waits for an event. */
export async function addWait(
  { tx }: Unit,
  match: EventMatch,
  wait: Pick<EventWait, "id" | "job_id" | "position" | "until">,
): Promise<void> {
  const { name, paths, shape, key } = match;
  const { shapes } = await nameOf(tx, name);
  if (!shapes.some((known) => shapeOf(name, known) === shape))
    await tx.change("EventName", name, (row) => ({ ...row, shapes: [...row.shapes, paths] }));
  await tx.insert("EventWait", { ...wait, name, shape, match: key, event: null });
}

function shapeOf(name: string, paths: readonly string[]): string {
  return `${name}/${JSON.stringify(paths)}`;
}

/** Removes a wait inside a unit. */
export async function removeWait({ tx }: Unit, { id, name, shape }: EventWait): Promise<void> {
  await tx.remove("EventWait", id);
  if ((await tx.ids("EventWait", "shape", shape)).length > 0) return;
  await tx.change("EventName", name, (row) => ({
    ...row,
    shapes: row.shapes.filter((paths) => shapeOf(name, paths) !== shape),
  }));
}

/**
 * Removes the waits of a job inside a unit. Those that its handler makes again are found again from the events that are
 * stored.
 */
export async function removeWaits(unit: Unit, jobId: string): Promise<void> {
  for (const id of await unit.tx.ids("EventWait", "job_id", jobId))
    await removeWait(unit, (await unit.tx.get("EventWait", id))!);
}

/** Removes an event inside a unit, unless a call was given it and has not recorded it; returns whether it is gone. */
export async function removeEvent({ tx }: Unit, id: string): Promise<boolean> {
  const event = await tx.get("ReceivedEvent", id);
  if (!event) return true;
  if ((await tx.ids("EventWait", "event", id)).length > 0) return false;
  await tx.remove("ReceivedEvent", id);
  const name = await tx.get("EventName", event.name);
  // With its last event, unless somebody waits for the next one.
  if (name?.count === event.n && name.shapes.length === 0) await tx.remove("EventName", event.name);
  return true;
}

/** Removes the messages of a thread inside the unit that removes it permanently. */
export async function removeMessages(unit: Unit, jobId: string): Promise<void> {
  const name = messageEvent(jobId);
  if (!(await unit.tx.get("EventName", name))) return;
  for (const id of await unit.tx.ids("ReceivedEvent", "name", name)) await removeEvent(unit, id);
}

/** Reads events that were received. */
export class ReceivedEvents {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /**
   * The first stored event that fits and is not among those to skip, of those received in a time; `count` is the number
   * of events of the name that were considered.
   */
  async find(
    match: EventMatch,
    range: { readonly since: string; readonly until: string | null; readonly skip: ReadonlySet<string> },
  ): Promise<{ readonly count: number; readonly event: StoredEvent | undefined }> {
    const table = this.#store.table("ReceivedEvent");
    const count = (await this.#store.table("EventName").get(match.name))?.count ?? 0;
    const created_at = {
      gte: Date.parse(range.since),
      ...(range.until !== null && { lt: Date.parse(range.until) + 1 }),
    };
    if (count === 0) return { count, event: undefined };
    const ids = await table.ids({
      where: { name: match.name, created_at },
      sort: "n",
      limit: Number.POSITIVE_INFINITY,
    });
    for (let at = 0; at < ids.length; at += PAGE) {
      const page = await Promise.all(ids.slice(at, at + PAGE).map(async (id) => table.peek(id)));
      const event = page.find((one) => one && !range.skip.has(one.id) && match.fits(one));
      if (event) return { count, event };
    }
    return { count, event: undefined };
  }

  /** Whether a wait is stored. */
  async isWaiting(waitId: string): Promise<boolean> {
    return (await this.#store.table("EventWait").peek(waitId)) !== undefined;
  }

  /** A page of events, newest first. */
  list(query: ListQuery) {
    return this.#store.table("ReceivedEvent").list({ sort: "-created_at", ...query });
  }

  /** A page of the calls that wait for an event, by their jobs' ids. */
  waits(page: { readonly limit: number; readonly skip: number }) {
    return this.#store.table("EventWait").list({ where: { event: null }, ...page });
  }

  /** The events that calls of a job were given and have not recorded. */
  async given(jobId: string): Promise<string[]> {
    const { items } = await this.#store
      .table("EventWait")
      .list({ where: { job_id: jobId }, limit: Number.POSITIVE_INFINITY });
    return items.flatMap(({ event }) => (event === null ? [] : [event]));
  }
}
