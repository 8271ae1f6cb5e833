import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import type { H3Event } from "h3";
import type { SessionVerifier, SignedIn } from "../../core/http/gate.ts";
import type { Store } from "../../core/store/store.ts";
import { readCookie } from "./cookies.ts";
import { assertSameOrigin, isSafeMethod } from "./same-origin.ts";

export const SESSION_COOKIE = "svc-admin";

/** What a session's cookie says, under a signature. */
interface Claims {
  readonly id: string;
  readonly name: string;
  /** Milliseconds since the epoch. */
  readonly until: number;
}

export interface SessionsParts {
  readonly apiKey: string;
  readonly hours: number;
  readonly clock: () => Date;
  readonly publicUrl: () => string | undefined;
  readonly store: Store;
}

/**
 * Sessions of people. The cookie carries the session, signed with a key derived from the API key: a new key ends them
 * all, and a restart ends none. Those that were signed out are remembered in the store until they would have ended.
 */
export class Sessions implements SessionVerifier {
  readonly #parts: SessionsParts;
  readonly #signingKey: Buffer;
  readonly #ended = new Map<string, number>();

  constructor(parts: SessionsParts) {
    this.#parts = parts;
    this.#signingKey = createHmac("sha256", parts.apiKey).update("admin session, version 1").digest();
  }

  /** Reads which sessions have been signed out; forgets those that have ended anyway. */
  async load(): Promise<void> {
    const table = this.#parts.store.table("AdminSession");
    const now = this.#parts.clock().getTime();
    for (let skip = 0; ; ) {
      const { items } = await table.list({ sort: "id", limit: 500, skip });
      for (const item of items) {
        if (item.until > now) this.#ended.set(item.id, item.until);
        else await table.remove(item.id);
      }
      skip += items.filter((item) => item.until > now).length;
      if (items.length < 500) return;
    }
  }

  /** The cookie value of a new session. */
  create(name: string): { readonly value: string; readonly maxAge: number; readonly signedIn: SignedIn } {
    const maxAge = Math.round(this.#parts.hours * 3600);
    const claims: Claims = {
      id: randomBytes(12).toString("base64url"),
      name,
      until: this.#parts.clock().getTime() + maxAge * 1000,
    };
    const body = Buffer.from(JSON.stringify(claims)).toString("base64url");
    return { value: `${body}.${this.#sign(body)}`, maxAge, signedIn: toSignedIn(claims) };
  }

  verify(event: H3Event): SignedIn | undefined {
    const claims = this.#read(event);
    if (!claims) return undefined;
    if (!isSafeMethod(event.req.method)) assertSameOrigin(event, this.#parts.publicUrl());
    return toSignedIn(claims);
  }

  /** Ends the session of a request, wherever its cookie went. */
  async end(event: H3Event): Promise<void> {
    const claims = this.#read(event);
    if (!claims) return;
    this.#ended.set(claims.id, claims.until);
    const table = this.#parts.store.table("AdminSession");
    await table.insert({ id: claims.id, until: claims.until }).catch((error: unknown) => {
      // Signed out twice at once: it is remembered already.
      if ((error as Error).name !== "StoreConflictError") throw error;
    });
  }

  #read(event: H3Event): Claims | undefined {
    const [body, signature, ...rest] = readCookie(event, SESSION_COOKIE)?.split(".") ?? [];
    if (!body || !signature || rest.length > 0) return undefined;
    const expected = Buffer.from(this.#sign(body));
    const given = Buffer.from(signature);
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return undefined;
    const claims = JSON.parse(Buffer.from(body, "base64url").toString("utf8")) as Claims;
    if (claims.until <= this.#parts.clock().getTime() || this.#ended.has(claims.id)) return undefined;
    return claims;
  }

  #sign(body: string): string {
    return createHmac("sha256", this.#signingKey).update(body).digest("base64url");
  }
}

/** What is shown of a session: the beginning of its id, and the name as it was typed. */
function toSignedIn({ id, name }: Claims): SignedIn {
  return { session: id.slice(0, 6), ...(name !== "" && { says: name }) };
}
