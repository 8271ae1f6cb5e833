import type { OutboxMessage } from "../../core/delivery/control-system.ts";
import { rowTable } from "../../core/store/row-table.ts";
import type { TableSpec } from "../../core/store/store.ts";
import { timeOf } from "./message-ids.ts";

/** A stored message: what operators see, and what is sent. Its id sorts by the time it was stored. */
export interface OutboxRow extends OutboxMessage {
  /**
   * Its place among the messages of its job: the number of the last line of the run log when it was stored, whose
   * clock that is does not matter. Messages with the same number are of one process, which orders them by their ids.
   * Absent in messages of version 0.1.0.
   */
  readonly seq?: number;
  readonly body: unknown;
}

/** Which instance sends the messages of a lane, where several share a store. */
export interface OutboxLane {
  /** The lane. */
  readonly id: string;
  readonly owner: string;
  /** When another one may take it, by the store's clock; milliseconds since the epoch. */
  readonly until: number;
}

declare module "../../core/store/stored-types.ts" {
  interface Tables {
    Outbox: OutboxRow;
    OutboxLane: OutboxLane;
  }
}

/** The name in a row of a target, or of one of its receivers, where it has several. */
export function addressOf(target: string, receiver: string | undefined): string {
  return receiver === undefined ? target : `${target}:${receiver}`;
}

/** The target of a lane, and its receiver, where the target has several. */
export function readLane(lane: string): { readonly target: string; readonly receiver: string | undefined } {
  const [target, receiver] = lane.slice(0, lane.indexOf("|")).split(":");
  return { target: target!, receiver };
}

/** Messages of one lane are sent one after the other. */
export function laneOf(target: string, stream: string): string {
  return `${target}|${stream}`;
}

export const OUTBOX_TABLE: TableSpec<OutboxRow> = {
  name: "Outbox",
  version: 2,
  entity: false,
  index: (row) => ({
    state: row.state,
    /** Only waiting messages are in a lane. */
    lane: row.state === "waiting" ? laneOf(row.target, row.stream) : null,
    time: timeOf(row.id),
    seq: row.seq ?? 0,
  }),
  facets: ["state", "lane"],
  sorted: ["time", "seq"],
};

export const OUTBOX_LANE_TABLE: TableSpec<OutboxLane> = rowTable("OutboxLane");
