import { rowTable } from "../../../core/store/row-table.ts";
import type { TableSpec } from "../../../core/store/store.ts";

/** A link with which one person answers one question without a key. Times are milliseconds since the epoch. */
export interface AnswerLink {
  /** Hash of its token, which is not stored. */
  readonly id: string;
  /** The person that it was made for: who has answered, in the history of the job. */
  readonly name: string;
  /** The same, where it is somebody who has signed in: the answer counts as that person's. */
  readonly person?: { readonly id: string; readonly issuer: string };
  /** Who made it. */
  readonly by: string;
  /** The same, where an identity provider vouches for that person: its access. */
  readonly maker?: string;
  readonly case_id: string;
  readonly question_id: string;
  /** When the question was asked: a job that starts over asks another one, with the same ids. */
  readonly asked_at: string;
  readonly created: number;
  /** When it expires at the latest. */
  readonly until: number;
  /** Whether its page shows what the steps of the case found. */
  readonly evidence?: boolean;
  /** When the person has answered. */
  readonly used?: number;
}

declare module "../../../core/store/stored-types.ts" {
  interface Tables {
    AnswerLink: AnswerLink;
  }
}

export const ANSWER_LINK_TABLE: TableSpec<AnswerLink> = rowTable("AnswerLink", {
  index: ({ case_id, until }) => ({ case_id, until }),
  facets: ["case_id"],
  sorted: ["until"],
});
