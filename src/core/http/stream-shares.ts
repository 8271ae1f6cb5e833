import type { Caller } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";

/** Streams of one job that tokens open. */
const MOST_PER_JOB = 20;

/** Guests have a token of one job, or nothing: any number of them may come. */
type Kind = "guests" | "programs" | "people";

/**
 * How the open streams of a service are shared out, so that no caller can take those of the others: guests together
 * have at most half, 20 per job; programs with the API key, and each session, have at most half. A tenth is kept free
 * for programs, and another one for people.
 */
export class StreamShares {
  readonly #most: number;
  readonly #half: number;
  readonly #kept: number;
  readonly #kinds = { guests: 0, programs: 0, people: 0 };
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
    const name = `${kind} ${caller?.job ?? caller?.session ?? caller?.name ?? ""}`;
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
    const { guests, programs, people } = this.#kinds;
    if (guests + programs + people >= this.#most) return false;
    if (kind === "guests" && guests >= this.#half) return false;
    const isForPeople = guests + programs >= this.#most - this.#kept;
    const isForPrograms = guests + people >= this.#most - this.#kept;
    return !(isForPeople && kind !== "people") && !(isForPrograms && kind !== "programs");
  }
}

function kindOf(caller: Caller | undefined): Kind {
  if (caller?.kind === "token" || caller?.kind === "link" || caller?.kind === "nobody") return "guests";
  return caller?.kind === "session" ? "people" : "programs";
}
