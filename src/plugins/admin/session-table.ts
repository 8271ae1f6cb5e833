import type { TableSpec } from "../../core/store/store.ts";

/** A session that was signed out before its time. */
export interface EndedSession {
  readonly id: string;
  /** When it would have ended, milliseconds since the epoch. */
  readonly until: number;
}

declare module "../../core/store/store.ts" {
  interface Tables {
    AdminSession: EndedSession;
  }
}

export const SESSION_TABLE: TableSpec<EndedSession> = {
  name: "AdminSession",
  version: 1,
  entity: false,
  index: ({ until }) => ({ until }),
  facets: [],
  sorted: [],
};
