import type { TableSpec } from "../store/store.ts";

/** Where the audit log begins and ends, in one row with the id `head`. */
export interface AuditHead {
  readonly id: string;
  /** Days that hold lines, `YYYY-MM-DD`: the keys of the log. A day never comes before the one of an earlier line. */
  readonly first_day: string;
  readonly last_day: string;
  /** The line in front of the first that is kept, and the last line. */
  readonly base: { readonly n: number; readonly hash: string };
  readonly last: { readonly n: number; readonly hash: string };
}

export const AUDIT_TABLE: TableSpec<AuditHead> = {
  name: "AuditHead",
  version: 1,
  entity: false,
  index: () => ({}),
  facets: [],
  sorted: [],
};
