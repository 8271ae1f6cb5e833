import { createHash, randomBytes } from "node:crypto";
import type { SignInLink, SignInLinks } from "../../core/service/tokens.ts";
import type { Store, Transaction } from "../../core/store/store.ts";
import type { OneTimeLink } from "./session-table.ts";

const MINUTES = 5;
/** Maximum number of unused links. */
const MOST = 20;

/** One-time sign-in links, stored as hashes: each works once, on any instance. */
export class OneTimeLinks implements SignInLinks {
  readonly #store: Store;
  readonly #clock: () => Date;

  constructor(store: Store, clock: () => Date) {
    this.#store = store;
    this.#clock = clock;
  }

  async create(base: string): Promise<SignInLink> {
    const { row, ...link } = await this.make(base);
    await this.#table.insert(row);
    return link;
  }

  /** A link that the caller stores. */
  async make(base: string): Promise<SignInLink & { readonly row: OneTimeLink }> {
    const token = randomBytes(24).toString("base64url");
    const expiresAt = new Date(this.#clock().getTime() + MINUTES * 60_000);
    await this.#makeRoom();
    return {
      row: { id: hash(token), until: expiresAt.getTime() },
      url: `${base.replace(/\/+$/, "")}/admin/sign-in?token=${token}`,
      expiresAt,
    };
  }

  /** Whether the token is valid, without using it up. */
  async isOpen(token: string): Promise<boolean> {
    const link = await this.#table.peek(hash(token));
    return link !== undefined && link.until > this.#clock().getTime();
  }

  /** Whether the token is valid, inside the transaction that removes it: it is valid only once. */
  async take(tx: Transaction, token: string): Promise<boolean> {
    const link = await tx.get("SignInLink", hash(token));
    return (
      link !== undefined && (await tx.remove("SignInLink", link.id)) && link.until > this.#clock().getTime()
    );
  }

  /** Invalidates all unused links. */
  async close(): Promise<void> {
    for (const id of await this.#table.ids()) await this.#table.remove(id);
  }

  /** Removes links that have expired, and the oldest ones if there are too many. */
  async #makeRoom(): Promise<void> {
    const { items } = await this.#table.list({ sort: "-until", limit: Number.POSITIVE_INFINITY });
    const now = this.#clock().getTime();
    for (const [at, { id, until }] of items.entries())
      if (at >= MOST - 1 || until <= now) await this.#table.remove(id);
  }

  get #table() {
    return this.#store.table("SignInLink");
  }
}

function hash(token: string): string {
  return createHash("sha256").update(token).digest("base64url");
}
