import { delays } from "../../base/backoff.ts";
import { messageOf } from "../../base/error-text.ts";
import { isServiceError, ServiceError } from "../../base/errors.ts";
import type { Remote } from "../json/remote.ts";
import type { Timers } from "../json/timers.ts";
import { storageError } from "../storage-error.ts";
import type { IndexValue, StoreLogger } from "../store.ts";
import { type Chain, type EntryNote, OwnerLostError } from "./chain.ts";

const PAUSES = delays({ first: 100, most: 5000 });
/** Milliseconds that a group still gets while the store closes. */
const LAST_CHANCE = 5000;

export interface BucketJournalOptions {
  readonly chain: Chain;
  readonly timers: Timers;
  readonly log: StoreLogger;
  /** What the next group waits for. */
  readonly room?: () => Promise<void> | undefined;
  /** Called after each acknowledged group. */
  readonly onGroup: (bytes: number) => void;
  /** What follows for the log while the bucket fails. @default "writes wait" */
  readonly consequence?: string;
}

/**
 * Writes groups to a bucket, one after the other. A group whose outcome is unknown is repeated until it is known: meanwhile
 * new writes are refused, and the group and those that wait behind it wait.
 */
export class BucketJournal implements Remote {
  readonly #options: BucketJournalOptions;
  #failure: ServiceError | undefined;
  #lost: ServiceError | undefined;
  #until = Number.POSITIVE_INFINITY;
  #wake: (() => void) | undefined;
  #groups = 0;
  #bytes = 0;
  #close: () => void = () => {};
  readonly #isClosing = new Promise<void>((resolve) => {
    this.#close = resolve;
  });

  constructor(options: BucketJournalOptions) {
    this.#options = options;
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  async append(group: Uint8Array, note?: EntryNote): Promise<void> {
    const { chain, timers, log, onGroup, consequence = "writes wait" } = this.#options;
    const room = this.#options.room?.();
    if (room) await Promise.race([room, this.#isClosing]);
    if (this.#lost !== undefined) throw this.#lost;
    for (let attempt = 0; ; attempt++) {
      try {
        await chain.append(group, note);
        break;
      } catch (error) {
        if (error instanceof OwnerLostError) throw this.#lose(error);
        if (this.#failure === undefined)
          log.error(`Store: the bucket does not respond as it should; ${consequence}`, {
            error: String(error),
          });
        this.#failure = toFailure(error);
        if (timers.now() >= this.#until) throw unknownOutcome(this.#failure);
        await this.#pause(attempt);
      }
    }
    if (this.#failure !== undefined) log.info("Store: the bucket stores writes again");
    this.#failure = undefined;
    this.#groups++;
    this.#bytes += group.length;
    onGroup(group.length);
  }

  /** Looks whether another instance has taken over. Rejects if the storage fails. */
  async check(): Promise<void> {
    try {
      await this.#options.chain.check();
    } catch (error) {
      if (!(error instanceof OwnerLostError)) throw error;
      if (this.#lost === undefined) this.#options.log.warn(`Store: ${this.#lose(error).message}`);
    }
  }

  refusal(): ServiceError | undefined {
    return this.#lost ?? this.#failure;
  }

  /** Why nothing will be stored from now on. */
  get lost(): ServiceError | undefined {
    return this.#lost;
  }

  details(): Readonly<Record<string, IndexValue>> {
    return { bucket_groups: this.#groups, bucket_bytes: this.#bytes, bucket_slot: this.#options.chain.slot };
  }

  /** From now on, a group waits for nothing before it, and is repeated for a few seconds only. */
  closing(): void {
    this.#close();
    this.#until = this.#options.timers.now() + LAST_CHANCE;
    this.#wake?.();
  }

  #pause(attempt: number): Promise<void> {
    const { timers } = this.#options;
    return new Promise((resolve) => {
      const cancel = timers.after(PAUSES(attempt), () => this.#wake?.());
      this.#wake = () => {
        this.#wake = undefined;
        cancel();
        resolve();
      };
    });
  }

  #lose({ message }: OwnerLostError): ServiceError {
    this.#lost = ownerLostError(message);
    return this.#lost;
  }
}

/** Another instance has the store. */
export function ownerLostError(who: string): ServiceError {
  return new ServiceError(
    "storage_error",
    `Another instance${who === "" ? "" : ` (${who})`} took over the store in the bucket: this one has stopped writing`,
    {
      detail: "Send requests to the other instance and stop this one. A restart takes the store back.",
      headers: { "retry-after": "1" },
    },
  );
}

function toFailure(error: unknown): ServiceError {
  if (isServiceError(error)) return error;
  return storageError(
    `The bucket did not store a write (${messageOf(error)})`,
    "The service retries automatically. Check the storage and its credentials if this continues.",
    error,
  );
}

function unknownOutcome(cause: ServiceError): ServiceError {
  return storageError(
    `The store was closed while the bucket did not respond: whether the last write was stored is unknown. ${cause.message}`,
    "Check the result after the next start.",
    cause,
  );
}
