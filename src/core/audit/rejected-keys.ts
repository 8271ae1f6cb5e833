import { Mutex } from "../base/mutex.ts";
import type { AuditLog } from "./audit-log.ts";

/** Addresses with their own line in one minute; the others share one. */
const ADDRESSES = 20;
const MINUTE = 60_000;

interface Rejected {
  keys: number;
  /** Requests that were refused without checking their key. */
  locked: number;
}

/**
 * Records wrong keys: a line for each address and minute, not one for each request: somebody who guesses keys
 * must not be able to fill the disk.
 */
export class RejectedKeys {
  readonly #audit: AuditLog;
  readonly #byAddress = new Map<string, Rejected>();
  #others: Rejected | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #writing = new Mutex();

  constructor(audit: AuditLog) {
    this.#audit = audit;
  }

  /** Counts a request with a wrong key; `isLocked` if its address was locked out. */
  add(address: string, isLocked: boolean): void {
    const counted = this.#countOf(address);
    if (isLocked) counted.locked++;
    else counted.keys++;
    this.#timer ??= setTimeout(() => void this.flush(), MINUTE).unref();
  }

  /** Stores what was counted. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const counted: [string | undefined, Rejected][] = [...this.#byAddress];
    if (this.#others) counted.push([undefined, this.#others]);
    this.#byAddress.clear();
    this.#others = undefined;
    return this.#writing.run(async () => {
      for (const [address, { keys, locked }] of counted) {
        await this.#audit.note({
          by: { kind: "nobody", ...(address !== undefined && { address }) },
          action: locked > 0 ? "key.locked_out" : "key.rejected",
          target: { kind: "address", id: address ?? "other addresses" },
          after: { wrong_keys: keys, refused_unseen: locked },
          outcome: "refused",
        });
      }
    });
  }

  #countOf(address: string): Rejected {
    const known = this.#byAddress.get(address);
    if (known) return known;
    if (this.#byAddress.size >= ADDRESSES) {
      this.#others ??= { keys: 0, locked: 0 };
      return this.#others;
    }
    const counted = { keys: 0, locked: 0 };
    this.#byAddress.set(address, counted);
    return counted;
  }
}
