import type { Caller } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";

/** Streams of one job that tokens open. */
const MOST_PER_JOB = 20;

/** Guests have a token of one job, or nothing: any number of them may come. So may holders of named keys. */
type Kind = "guests" | "holders" | "programs" | "people";

/**
 * How the open streams of a service are shared out, so that no caller can take those of the others: guests together
 * have at most half, 20 per job; programs with the API key, each named key, each person and each session have at most
 * half. A tenth is kept free for the API key, and another one for people.
 */
export class StreamShares {
  readonly #most: number;
  readonly #half: number;
  readonly #kept: number;
  readonly #kinds = { guests: 0, holders: 0, programs: 0, people: 0 };
  /** Open streams by job, for guests, and by caller. */
  readonly #callers = new Map<string, number>();

  constructor(most: number) {
    this.#most = most;
    this.#half = Math.ceil(most / 2);
    this.#kept = Math.floor(most / 10);
  }

  /** Counts one more stream of a caller until the result is called; throws where there is no room for it. */
  enter(caller: Caller | undefined): () => void {
    const kind = kindOf(caller);
    const name = `${kind} ${caller?.job ?? caller?.access ?? caller?.session ?? ""}`;
    if (!this.#hasRoom(kind)) {
      throw new ServiceError("unavailable", "Too many live streams are open", {
        detail: "Close one, try again later, or raise the service's option maxStreams.",
        headers: { "retry-after": "10" },
      });
    }
    const own = this.#callers.get(name) ?? 0;
    const share = caller?.job === undefined ? this.#half : Math.min(MOST_PER_JOB, this.#half);
    if (own >= share) {
      const who = caller?.job === undefined ? "This caller" : "This job";
      throw new ServiceError("rate_limited", `${who} has too many live streams open`, {
        detail: `Close one of the ${own}, or try again later.`,
        headers: { "retry-after": "10" },
      });
    }
    this.#kinds[kind]++;
    this.#callers.set(name, own + 1);
    return () => {
      this.#kinds[kind]--;
      const left = this.#callers.get(name)! - 1;
      if (left > 0) this.#callers.set(name, left);
      else this.#callers.delete(name);
    };
  }

  #hasRoom(kind: Kind): boolean {
    const { guests, holders, programs, people } = this.#kinds;
    if (kind === "guests" && guests >= this.#half) return false;
    const keptFor = (one: Kind): number => (kind === one ? 0 : Math.max(0, this.#kept - this.#kinds[one]));
    return this.#most - (guests + holders + programs + people) > keptFor("people") + keptFor("programs");
  }
}

function kindOf(caller: Caller | undefined): Kind {
  if (caller?.kind === "token" || caller?.kind === "link" || caller?.kind === "nobody") return "guests";
  if (caller?.kind === "session") return "people";
  return caller?.access === undefined ? "programs" : "holders";
}
