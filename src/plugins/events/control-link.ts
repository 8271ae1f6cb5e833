import { type Actor, SYSTEM } from "../../core/audit/caller.ts";
import type { Logger } from "../../core/base/log.ts";
import type {
  ControlCounts,
  ControlStatus,
  ControlSystem,
  OutboxMessage,
} from "../../core/delivery/control-system.ts";
import type {
  DeliveryTarget,
  Events,
  HeaderSource,
  NewEvent,
  PostedMessage,
} from "../../core/delivery/events.ts";
import type { Account } from "../../core/models/account.ts";
import { PluginError } from "../../core/service/plugin.ts";
import type { Store, Transaction } from "../../core/store/store.ts";
import { CONTROL } from "./control-target.ts";
import type { Dispatcher } from "./dispatcher.ts";
import type { MessageIds } from "./message-ids.ts";
import type { Outbox } from "./outbox.ts";
import { addressOf, laneOf, type OutboxRow } from "./outbox-table.ts";

/** Stream of events that belong to no job. */
export const SERVICE_STREAM = "service";
/** The name of a target is part of ids and lanes. */
const TARGET_NAME = /^[A-Za-z0-9_-]{1,80}$/;
/** Expected and maximum duration of a third-party transaction, in milliseconds. */
const SOON = 20;
const LATE = 1000;

export interface ControlLinkParts {
  readonly store: Store;
  readonly outbox: Outbox;
  readonly dispatcher: Dispatcher;
  readonly ids: MessageIds;
  readonly account: Account | undefined;
  readonly log: Logger;
  readonly register: () => Promise<string | undefined>;
  /** Called when changes are to be reported from now on. */
  readonly onFirstTarget: () => void;
}

/** The events of a service: stored, sent, and managed by operators. */
export class ControlLink implements Events, ControlSystem {
  readonly #parts: ControlLinkParts;
  readonly #targets: DeliveryTarget[] = [];
  readonly #headerSources: HeaderSource[] = [];
  readonly #touched = new Map<string, Set<string>>();
  #registeredAt: string | undefined;
  #dropped = 0;

  constructor(parts: ControlLinkParts) {
    this.#parts = parts;
  }

  /** Whether there is any target for events. */
  get hasTargets(): boolean {
    return this.#targets.length > 0;
  }

  async emit(event: NewEvent, options: { readonly stream?: string } = {}): Promise<string> {
    const id = await this.#parts.store.transaction((tx) => this.write(tx, event, options));
    this.wake(options.stream ?? SERVICE_STREAM);
    return id;
  }

  async write(tx: Transaction, event: NewEvent, { stream = SERVICE_STREAM } = {}): Promise<string> {
    const id = await this.record(tx, event, stream);
    this.#wakeSoon(stream);
    return id;
  }

  /** Stores an event for every target that wants it; `wake` is to be called once the transaction is over. */
  async record(tx: Transaction, event: NewEvent, stream: string): Promise<string> {
    const eventId = this.#parts.ids.next();
    for (const target of this.#targets) {
      if (!this.#wants(target, event)) continue;
      const message = { eventId, target: target.name, stream, type: event.type, body: event };
      this.#touch(stream, await this.#parts.outbox.insert(tx, message));
    }
    return eventId;
  }

  /** Inside the transaction that removes a job: what waits to be sent about it is not mixed with a later job of its id. */
  async detach(tx: Transaction, stream: string): Promise<void> {
    for (const { name, receivers } of this.#targets) {
      const addresses = (await receivers?.ofStream(stream, tx))?.map((each) => addressOf(name, each)) ?? [
        name,
      ];
      for (const each of addresses) await this.#parts.outbox.detach(tx, laneOf(each, stream));
    }
  }

  /** Makes the dispatcher check what was recorded for a stream. `keep` leaves it to be checked again. */
  wake(stream: string, keep = false): void {
    const lanes = this.#touched.get(stream);
    if (!lanes) return;
    if (!keep) this.#touched.delete(stream);
    for (const lane of lanes) this.#parts.dispatcher.wake(lane);
  }

  async post(name: string, message: PostedMessage, tx?: Transaction): Promise<string> {
    const eventId = this.#parts.ids.next();
    const { receivers } = this.#targets.find((each) => each.name === name) ?? {};
    const target = addressOf(name, receivers?.of(message.body));
    const { outbox, store, dispatcher } = this.#parts;
    if (!tx) {
      dispatcher.wake(await store.transaction((own) => outbox.insert(own, { eventId, target, ...message })));
      return eventId;
    }
    this.#touch(message.stream, await outbox.insert(tx, { eventId, target, ...message }));
    this.#wakeSoon(message.stream);
    return eventId;
  }

  addTarget(target: DeliveryTarget): void {
    if (!TARGET_NAME.test(target.name)) {
      throw new PluginError(`"${target.name}" cannot name a target: use 1 to 80 letters, digits, _ or -`);
    }
    this.#parts.dispatcher.add(target);
    if (this.#targets.push(target) === 1) this.#parts.onFirstTarget();
  }

  addHeaders(source: HeaderSource): void {
    this.#headerSources.push(source);
  }

  /** A target's error must not undo the change that the event reports. */
  #wants(target: DeliveryTarget, event: NewEvent): boolean {
    try {
      return target.accepts?.(event) ?? false;
    } catch (error) {
      this.#parts.log.error("a target could not decide whether it wants an event", {
        target: target.name,
        type: event.type,
        error,
      });
      return false;
    }
  }

  #touch(stream: string, lane: string): void {
    this.#touched.set(stream, (this.#touched.get(stream) ?? new Set()).add(lane));
  }

  /** For a third-party transaction: its end is not reported. */
  #wakeSoon(stream: string): void {
    setTimeout(() => this.wake(stream, true), SOON).unref();
    setTimeout(() => this.wake(stream), LATE).unref();
  }

  noteDropped(count: number): void {
    this.#dropped += count;
  }

  async headersFor(stream: string): Promise<Readonly<Record<string, string>>> {
    if (this.#headerSources.length === 0) return {};
    return Object.assign({}, ...(await Promise.all(this.#headerSources.map((source) => source(stream)))));
  }

  status(): ControlStatus {
    const { account, dispatcher } = this.#parts;
    return {
      mode: account ? "connected" : "local",
      api_url: account?.api_url ?? null,
      workspace_id: account?.workspace_id ?? null,
      targets: [...dispatcher.senders].map((sender) => sender.health()),
      registered_at: this.#registeredAt ?? null,
    };
  }

  async counts(): Promise<ControlCounts> {
    let delivered = 0;
    for (const sender of this.#parts.dispatcher.senders) delivered += sender.delivered;
    return { ...(await this.#parts.outbox.counts()), delivered, dropped: this.#dropped };
  }

  async list(query: Parameters<ControlSystem["list"]>[0] = {}) {
    const { items, total } = await this.#parts.outbox.list(query);
    return { items: items.map(toMessage), total };
  }

  async retry(ids: readonly string[] | "all", by: Actor = SYSTEM): Promise<number> {
    const lanes = await this.#parts.outbox.revive(ids, by);
    for (const lane of new Set(lanes)) this.#parts.dispatcher.wake(lane);
    return lanes.length;
  }

  drop(ids: readonly string[] | "all", by: Actor = SYSTEM): Promise<number> {
    return this.#parts.outbox.drop(ids, by);
  }

  async register(): Promise<void> {
    if (!this.#targets.some((target) => target.name === CONTROL)) return;
    this.#registeredAt = await this.#parts.register();
  }
}

function toMessage({ body: _, ...message }: OutboxRow): OutboxMessage {
  return message;
}
