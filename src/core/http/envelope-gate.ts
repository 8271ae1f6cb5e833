import { isAuthenticated } from "../agents/envelope.ts";
import { type Parameters, UnreadableParameters } from "../agents/parameters.ts";
import { ServiceError } from "../base/errors.ts";
import { Attempts } from "./attempts.ts";
import type { Clients } from "./clients.ts";
import type { HttpEvent } from "./route.ts";

/** Unreadable envelopes that an address may send in one window. */
const ALLOWED = 10;
const WINDOW = 10 * 60_000;

export interface EnvelopeGateParts {
  readonly parameters: Pick<Parameters, "assertAccepted">;
  readonly clients: Clients;
  readonly clock: () => Date;
}

/**
 * Guards everything that opens a client's envelope. An unauthenticated envelope can be changed bit by bit,
 * and each response shows whether it can still be read, so attempts are limited.
 */
export class EnvelopeGate {
  readonly #parts: EnvelopeGateParts;
  readonly #attempts: Attempts;

  constructor(parts: EnvelopeGateParts) {
    this.#parts = parts;
    this.#attempts = new Attempts(parts.clock, WINDOW);
  }

  /**
   * Runs the work that opens the envelope; throws `rate_limited` without running it if too many could not be
   * read.
   */
  pass<T>(event: HttpEvent, envelope: string | null | undefined, open: () => T | Promise<T>): T | Promise<T> {
    return envelope ? this.#guard(event, envelope, open) : open();
  }

  async #guard<T>(event: HttpEvent, envelope: string, open: () => T | Promise<T>): Promise<T> {
    const { parameters, clients } = this.#parts;
    parameters.assertAccepted(envelope);
    // One that was changed cannot be read at all, so its readers learn nothing: no sender makes others wait.
    if (isAuthenticated(envelope)) return open();
    const address = clients.address(event);
    const before = this.#attempts.find(address);
    if (before && before.failed >= ALLOWED) throw tooMany(this.#attempts.secondsTo(before.until));
    try {
      return await open();
    } catch (error) {
      if (error instanceof UnreadableParameters) this.#attempts.fail(address);
      throw error;
    }
  }
}

function tooMany(wait: number): ServiceError {
  return new ServiceError("rate_limited", "Too many unreadable encrypted parameters from this address", {
    detail: `Try again in ${wait} s, with parameters encrypted for this service's current public key (GET /utils/public_key).`,
    headers: { "retry-after": String(wait) },
  });
}
