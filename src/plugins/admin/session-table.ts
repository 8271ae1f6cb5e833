import type { Proven } from "../../core/access/role-table.ts";
import { rowTable } from "../../core/store/row-table.ts";
import type { TableSpec } from "../../core/store/store.ts";

/** A person who is signed in. Times are milliseconds since the epoch. */
export interface AdminSession {
  /** Digest of the cookie's value, which is not stored. */
  readonly id: string;
  /** The name that was typed; it is not verified. */
  readonly name: string;
  /** How the session was opened. */
  readonly by: "key" | "link" | "person";
  /** Address that it was opened from. */
  readonly address: string;
  /** Shows whether the API key that opened it is still valid. */
  readonly key: string;
  /** The named key that opened it, by its id: the session may do and see what that may, and ends with it. */
  readonly access?: string;
  /** The program that it was opened for, such as `svc on ada-laptop`: it sends the session as a key is sent. */
  readonly program?: string;
  /** Until the program has fetched it, which it can do once. */
  readonly unfetched?: true;
  /** Whom the identity provider vouches for; the session has what the person may do now. */
  readonly person?: Proven;
  /** What the provider is asked with whether it still does, encrypted. */
  readonly tokens?: string;
  /** When it last said so. */
  readonly checked?: number;
  /** Until when an instance asks it, so that no other one does meanwhile. */
  readonly checking?: number;
  readonly since: number;
  /** When the person last did something, to the minute. */
  readonly seen: number;
  /** When it ends at the latest. */
  readonly until: number;
}

/** A link that signs in once. */
export interface OneTimeLink {
  /** Hash of its token, which is not stored. */
  readonly id: string;
  /** When it expires, milliseconds since the epoch. */
  readonly until: number;
}

declare module "../../core/store/stored-types.ts" {
  interface Tables {
    AdminSession: AdminSession;
    SignInLink: OneTimeLink;
  }
}

export const SESSION_TABLE: TableSpec<AdminSession> = rowTable("AdminSession", {
  version: 2,
  index: ({ until, seen }) => ({ until, seen }),
});

export const LINK_TABLE: TableSpec<OneTimeLink> = rowTable("SignInLink", {
  index: ({ until }) => ({ until }),
  sorted: ["until"],
});
