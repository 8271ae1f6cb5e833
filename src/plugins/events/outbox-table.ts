import type { OutboxMessage } from "../../core/delivery/control-system.ts";
import type { TableSpec } from "../../core/store/store.ts";
import { timeOf } from "./message-ids.ts";

/** A stored message: what operators see, and what is sent. Its id sorts by the time it was stored. */
export interface OutboxRow extends OutboxMessage {
  readonly body: unknown;
}

declare module "../../core/store/store.ts" {
  interface Tables {
    Outbox: OutboxRow;
  }
}

/** Messages of one lane are sent one after the other. */
export function laneOf(target: string, stream: string): string {
  return `${target}|${stream}`;
}

export const OUTBOX_TABLE: TableSpec<OutboxRow> = {
  name: "Outbox",
  version: 1,
  entity: false,
  index: (row) => ({
    state: row.state,
    /** Only waiting messages are in a lane. */
    lane: row.state === "waiting" ? laneOf(row.target, row.stream) : null,
    /** With ids for ties, the order in which messages were stored. */
    time: timeOf(row.id),
  }),
  facets: ["state", "lane"],
  sorted: ["time"],
};
