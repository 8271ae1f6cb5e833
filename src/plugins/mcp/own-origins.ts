import { ServiceError } from "../../core/base/errors.ts";
import type { ServiceState } from "../../core/http/service-state.ts";

const LOOPBACK: ReadonlySet<string> = new Set(["localhost", "127.0.0.1", "[::1]"]);

/**
 * Refuses requests of pages from elsewhere, as the protocol demands: a page whose name was made to lead to this machine
 * (DNS rebinding) names an origin of its own. The request's `Host` proves nothing then, and is not compared.
 */
export class OwnOrigins {
  readonly #allowed: ReadonlySet<string>;
  readonly #state: ServiceState;

  constructor(allowed: readonly string[], state: ServiceState) {
    this.#allowed = new Set(allowed);
    this.#state = state;
  }

  /** Throws `forbidden` for an origin that is neither the service's own nor in `allowedOrigins`; programs send none. */
  check(origin: string | null): void {
    if (origin === null || this.#allowed.has(origin) || this.#isOwn(origin)) return;
    throw new ServiceError("forbidden", "Pages of this origin may not use the Model Context Protocol here", {
      detail: "Add the origin to the service's option allowedOrigins, or call the service from a server.",
    });
  }

  #isOwn(origin: string): boolean {
    const { publicUrl, port } = this.#state;
    if (publicUrl !== undefined && origin === new URL(publicUrl).origin) return true;
    if (!URL.canParse(origin)) return false;
    const { protocol, hostname, port: given } = new URL(origin);
    return LOOPBACK.has(hostname) && Number(given || (protocol === "https:" ? 443 : 80)) === port;
  }
}
