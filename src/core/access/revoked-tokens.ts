import { hash } from "node:crypto";
import type { AuditLog } from "../audit/audit-log.ts";
import type { Caller } from "../audit/caller.ts";
import type { Logger } from "../base/log.ts";
import type { Ledger } from "../entities/ledger.ts";
import type { Revocation } from "../models/revocation.ts";
import type { Store } from "../store/store.ts";
import { Mirror } from "./mirror.ts";

/** Milliseconds that a revocation is kept: longer than any token lives, also by a clock that is wrong. */
const KEPT = 48 * 3_600_000;

export interface RevokedTokensParts {
  readonly store: Store;
  readonly ledger: Ledger;
  readonly audit: AuditLog;
  readonly log: Logger;
  readonly clock: () => Date;
}

/** The last revocation that was known when a token was made, of all of its job and of those of its name; 0 for none. */
export type Marks = readonly [job: number, name: number];

/** What of a token decides whether it was revoked. */
interface Issued {
  readonly job: string;
  readonly name: string | undefined;
  readonly marks: Marks;
}

interface Following extends Issued {
  /** Milliseconds since 1970: when the last of these tokens expires. */
  until: number;
  readonly over: AbortController;
  /** The signal of the last maker, and what aborts with it or with `over`. */
  either?: { readonly maker: AbortSignal; readonly signal: AbortSignal };
}

/**
 * Tokens of jobs that no longer count although their time is not over: all of a job, or those of one name. Tokens
 * themselves are stored nowhere: each has the last revocation in it that its maker knew, so that a later one concerns it,
 * whatever the clocks of instances say. Every instance has the revocations in memory.
 */
export class RevokedTokens {
  readonly #parts: RevokedTokensParts;
  readonly #mirror: Mirror<"Revocation">;
  /** By job and name. */
  #known = new Map<string, number>();
  /** What ends the streams of tokens that are revoked together, however often these are used. */
  readonly #following = new Map<string, Following>();
  #tidyAt = 64;

  constructor(parts: RevokedTokensParts) {
    this.#parts = parts;
    const { store, log } = parts;
    const onRows = (rows: readonly Revocation[]): void => this.#index(rows);
    this.#mirror = new Mirror({
      ...{ store, log, onRows, table: "Revocation", hint: "revocation" },
      rows: "this token",
    });
  }

  start(): Promise<void> {
    return this.#mirror.start();
  }

  close(): void {
    this.#mirror.close();
  }

  /** What a new token of a job has in it. */
  marks(job: string, name: string | undefined): Marks {
    return [
      this.#known.get(idOf(job)) ?? 0,
      name === undefined ? 0 : (this.#known.get(idOf(job, name)) ?? 0),
    ];
  }

  /** Whether a token was revoked; throws where that cannot be known. */
  isRevoked(token: Issued): boolean {
    this.#mirror.assertFresh();
    return this.#isOver(token);
  }

  /** Aborts when a token is revoked that opens a stream, or with the signal of who made it. */
  over(token: Issued & { readonly exp: number }, maker: AbortSignal | undefined): AbortSignal {
    const { job, name, marks, exp } = token;
    const key = JSON.stringify([job, name, marks]);
    let one = this.#following.get(key);
    if (!one) {
      this.#tidy();
      one = { job, name, marks, until: 0, over: new AbortController() };
      this.#following.set(key, one);
    }
    one.until = Math.max(one.until, exp * 1000);
    if (!maker) return one.over.signal;
    if (one.either?.maker !== maker)
      one.either = { maker, signal: AbortSignal.any([maker, one.over.signal]) };
    return one.either.signal;
  }

  /** Revokes the tokens of a job that were made so far; with a name, those that were made for it. */
  async revoke(job: string, name: string | undefined, by: Caller): Promise<void> {
    const id = idOf(job, name);
    const table = this.#parts.store.table("Revocation");
    const now = this.#parts.clock().getTime();
    const over = await table.ids({ where: { until: { lt: now } }, limit: 100 });
    for (const old of over) if (old !== id) await table.remove(old);
    await this.#parts.ledger.write(async (unit) => {
      const { tx } = unit;
      const before = await tx.get("Revocation", id);
      const row: Revocation = { id, mark: Math.max(now, (before?.mark ?? 0) + 1), until: now + KEPT };
      if (before) await tx.change("Revocation", id, () => row);
      else await tx.insert("Revocation", row);
      const after = name === undefined ? {} : { name };
      await this.#parts.audit.write(unit, {
        ...{ by, action: "job.token_revoke", target: { kind: "job", id: job }, after },
      });
    });
    await this.#mirror.changed(id);
  }

  #isOver({ job, name, marks }: Issued): boolean {
    if (this.#known.size === 0) return false;
    const [ofJob, ofName] = this.marks(job, name);
    return marks[0] < ofJob || marks[1] < ofName;
  }

  #index(rows: readonly Revocation[]): void {
    this.#known = new Map(rows.map(({ id, mark }) => [id, mark]));
    for (const [key, one] of this.#following) {
      if (!this.#isOver(one)) continue;
      one.over.abort();
      this.#following.delete(key);
    }
  }

  /** Forgets streams whose token has expired: they have ended by then. */
  #tidy(): void {
    if (this.#following.size < this.#tidyAt) return;
    const now = this.#parts.clock().getTime();
    for (const [key, one] of this.#following) if (one.until <= now) this.#following.delete(key);
    this.#tidyAt = Math.max(64, this.#following.size * 2);
  }
}

function idOf(job: string, name?: string): string {
  return hash("sha256", JSON.stringify(name === undefined ? [job] : [job, name]), "hex").slice(0, 40);
}
