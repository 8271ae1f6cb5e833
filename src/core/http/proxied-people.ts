import type { Assertions } from "../access/assertions.ts";
import type { People } from "../access/people.ts";
import type { Caller } from "../audit/caller.ts";
import type { RejectedKeys } from "../audit/rejected-keys.ts";
import { isServiceError } from "../base/errors.ts";
import type { HttpEvent } from "./route.ts";
import { assertSameOrigin, isSafeMethod, type OwnAddress } from "./same-origin.ts";

/** Milliseconds after which a stream reconnects, and so shows the proxy again who reads it. */
const RECHECK = 60_000;

export interface ProxiedPeopleParts {
  readonly assertions: Pick<Assertions, "verify">;
  readonly people: Pick<People, "enter">;
  /** Lower case. */
  readonly header: string;
  readonly clock: () => Date;
  readonly own: OwnAddress;
  readonly rejected: Pick<RejectedKeys, "add">;
}

/** People who come through a proxy that signs, with each request, who they are. */
export class ProxiedPeople {
  readonly #parts: ProxiedPeopleParts;

  constructor(parts: ProxiedPeopleParts) {
    this.#parts = parts;
  }

  /** The assertion of a request, which is not verified. */
  find(event: HttpEvent): string | undefined {
    const { header } = this.#parts;
    const value = event.req.headers.get(header)?.trim();
    if (!value) return undefined;
    if (header !== "authorization") return value;
    // Keys are sent there, too; no key of the service looks like this.
    return /^bearer +(eyJ[\w-]*\.[\w-]+\.[\w-]*)$/i.exec(value)?.[1];
  }

  /** The caller of a request with an assertion; throws where that is not valid, or a write comes from another site. */
  async enter(event: HttpEvent, assertion: string): Promise<Caller> {
    const { assertions, people, clock, own, rejected } = this.#parts;
    const address = own.clients.address(event);
    try {
      const { person, until } = await assertions.verify(assertion);
      // The proxy adds the assertion to whatever a browser sends, so also to what a page of another site sends.
      if (!isSafeMethod(event.req.method)) assertSameOrigin(event, own);
      const soon = clock().getTime() + RECHECK;
      return { ...people.enter(person), address, until: new Date(Math.min(until.getTime(), soon)) };
    } catch (error) {
      if (isServiceError(error) && error.type === "unauthorized") rejected.add(address, false);
      throw error;
    }
  }
}
