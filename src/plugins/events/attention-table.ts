import { rowTable } from "../../core/store/row-table.ts";
import type { TableSpec } from "../../core/store/store.ts";

/** What was reported as needing a person, until it was reported as over. */
export interface AttentionNotice {
  /** Its kind, its agent and what it is about. */
  readonly id: string;
  readonly kind: string;
  readonly agent: string | null;
  readonly about: string | null;
  readonly raised_at: string;
  /** When an instance saw last that it needs a person, to the minute. */
  readonly seen_at: string;
}

declare module "../../core/store/stored-types.ts" {
  interface Tables {
    AttentionNotice: AttentionNotice;
  }
}

export const ATTENTION_NOTICE_TABLE: TableSpec<AttentionNotice> = rowTable("AttentionNotice");
