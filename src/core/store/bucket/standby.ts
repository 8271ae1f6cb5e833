import { randomBytes } from "node:crypto";
import { closedError } from "../storage-error.ts";
import type { StoreLogger } from "../store.ts";
import { ALIVE, type Objects, OWNER, RELEASED, seal, unseal, WAITING } from "./sealed.ts";
import { DEAD } from "./take-over.ts";

/** Milliseconds between two checks of the owner. */
const POLL = 500;
/** Checks between two requests for a sign of life. */
const ASK = 10;

export interface StandbyOptions {
  /** Milliseconds without a sign of life after which an owner counts as dead. @default 30000 */
  readonly dead?: number;
}

/**
 * An instance that waits to take the store over. It does so when a request reaches it, when the owner releases the store,
 * or when the owner has given no sign of life for a while. Taking over is safe at any moment: this only decides when.
 */
export class Standby {
  readonly #dead: number;
  readonly #name = randomBytes(8).toString("hex");
  #isWoken = false;
  #isClosed = false;
  #next: (() => void) | undefined;

  constructor({ dead = DEAD }: StandbyOptions = {}) {
    this.#dead = dead;
  }

  /** A request has reached this instance. */
  wake(): void {
    this.#isWoken = true;
    this.#next?.();
  }

  close(): void {
    this.#isClosed = true;
    this.#next?.();
  }

  /** Resolves when the store should be taken over. `last` is the token of the last owner on this disk, which has died. */
  async wait(objects: Objects, last: string | undefined, log: StoreLogger): Promise<void> {
    let sign: string | undefined;
    let since = performance.now();
    let isFailing = false;
    for (let poll = 0; ; poll++) {
      if (this.#isClosed) throw closedError();
      if (this.#isWoken) return;
      const marks = await this.#look(objects, poll).catch((error: unknown) => {
        if (!isFailing) log.warn("Standby: the bucket does not respond; retried", { error: String(error) });
        isFailing = true;
        // Nobody is known to be dead.
        since = performance.now();
      });
      if (marks === undefined) {
        await this.#pause();
        continue;
      }
      isFailing = false;
      const [owner, released, alive] = marks;
      if (owner === undefined) return;
      const head = unseal<{ epoch: string; by?: { token: string; host: string; pid: number } }>(owner)?.head;
      if (head !== undefined && (isOf(released, head.epoch) || head.by?.token === last)) return;
      // An earlier owner that has not noticed that it is none gives signs of life too.
      const now = `${head?.epoch} ${isOf(alive, head?.epoch) ? alive?.toString() : ""}`;
      if (now !== sign) since = performance.now();
      sign = now;
      if (performance.now() - since >= this.#dead) {
        log.warn(
          "Store: the owner of the store in the bucket gives no sign of life; this instance takes over",
        );
        return;
      }
      if (poll === 0)
        log.info("Standby: another instance has the store; this one takes over when a request reaches it", {
          host: head?.by?.host,
          pid: head?.by?.pid,
        });
      await this.#pause();
    }
  }

  /** Reads what the owner says; it gives signs of life only if they are asked for. */
  async #look(objects: Objects, poll: number): Promise<(Buffer | undefined)[]> {
    if (poll % ASK === 0) await objects.put(WAITING, seal({ by: this.#name, poll }));
    return Promise.all([OWNER, RELEASED, ALIVE].map((key) => objects.get(key)));
  }

  #pause(): Promise<void> {
    if (this.#isWoken || this.#isClosed) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, POLL);
      this.#next = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

function isOf(mark: Buffer | undefined, epoch: string | undefined): boolean {
  return epoch !== undefined && unseal<{ epoch: string }>(mark)?.head.epoch === epoch;
}
