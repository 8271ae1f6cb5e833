import { createHmac, createPrivateKey, hkdfSync, timingSafeEqual } from "node:crypto";
import * as v from "valibot";
import type { AccessKeys } from "../access/access-keys.ts";
import type { RevokedTokens } from "../access/revoked-tokens.ts";
import type { Caller } from "../audit/caller.ts";
import { ServiceError } from "../base/errors.ts";
import { EntityIdSchema } from "../models/scalars.ts";

export const TOKEN_SCOPES = ["status", "record", "answer", "message", "stop"] as const;
/**
 * What a token may do: read and follow the state of the job, or also its record; answer its questions, send messages
 * to it if it is a thread of a chat, stop it.
 */
export type TokenScope = (typeof TOKEN_SCOPES)[number];

/** Which tokens a route accepts beside the API key. */
export interface TokenRule {
  /** The token must have this scope. */
  readonly scope: TokenScope;
  /** The parameter of the path that has the id of the token's job. */
  readonly job: string;
}

const GrantSchema = v.object({
  job: EntityIdSchema,
  /** When the job was created, ISO 8601; absent in tokens of earlier versions. */
  created: v.optional(v.string()),
  scopes: v.pipe(v.array(v.string()), v.transform(toScopes)),
  /** Seconds since 1970. */
  exp: v.number(),
  /** The last revocations that its maker knew; absent in tokens of earlier versions. */
  marks: v.optional(v.tuple([v.number(), v.number()]), [0, 0]),
  name: v.optional(v.string()),
  /** The named key or the person that made it, by the id of the access. */
  by: v.optional(v.string()),
});
/** What a token allows, until when; `name` is its user. */
export type TokenGrant = v.InferOutput<typeof GrantSchema>;

export interface TokenKeys {
  /** Tokens are signed for the first, and accepted for all. */
  readonly apiKeys: readonly string[];
  /** PEM. The same holds for these. */
  readonly rsaPrivateKeys: readonly string[];
}

/** Tokens of earlier versions could `read` and `stream` the record. */
function toScopes(given: string[]): TokenScope[] {
  const named = given.map((scope) => (scope === "read" || scope === "stream" ? "record" : scope));
  return TOKEN_SCOPES.filter((scope) => named.includes(scope));
}

/** Whether a token with these scopes may do something: the record has the state in it. */
function covers(scopes: readonly TokenScope[], scope: TokenScope): boolean {
  return scopes.includes(scope) || (scope === "status" && scopes.includes("record"));
}

/** Beginning of every token, so that people and scanners recognize one. */
export const TOKEN_PREFIX = "svct.";

export interface JobTokensParts {
  readonly keys: TokenKeys;
  readonly access: Pick<AccessKeys, "callerOf">;
  readonly revoked: Pick<RevokedTokens, "isRevoked" | "marks" | "over">;
  readonly clock: () => Date;
}

/**
 * Short-lived tokens of one job, for browsers. The service stores none: each is signed, with a key that depends on the
 * API key, so that it ends with that key, and on the RSA key, so that nobody can guess a weak API key from a token.
 * Every instance with these keys accepts it. One that a named key made also ends with that key; all of a job can be
 * revoked, or those of one name.
 */
export class JobTokens {
  readonly #given: TokenKeys;
  #derived: readonly Buffer[] | undefined;
  readonly #clock: () => Date;
  readonly #access: Pick<AccessKeys, "callerOf">;
  readonly #revoked: Pick<RevokedTokens, "isRevoked" | "marks" | "over">;

  constructor({ keys, access, revoked, clock }: JobTokensParts) {
    this.#given = keys;
    this.#access = access;
    this.#revoked = revoked;
    this.#clock = clock;
  }

  /** Derived at the first use: it takes milliseconds, and many services have no tokens. */
  get #keys(): readonly Buffer[] {
    if (!this.#derived) {
      const { apiKeys, rsaPrivateKeys } = this.#given;
      this.#derived = rsaPrivateKeys.flatMap((pem) => {
        const secret = createPrivateKey(pem).export({ type: "pkcs8", format: "der" });
        return apiKeys.map((key) => Buffer.from(hkdfSync("sha256", secret, key, "svc job token 1", 32)));
      });
    }
    return this.#derived;
  }

  create(given: Omit<TokenGrant, "marks">): string {
    const { job, name } = given;
    const grant = { ...given, marks: this.#revoked.marks(job, name) };
    const text = TOKEN_PREFIX + Buffer.from(JSON.stringify(grant)).toString("base64url");
    return `${text}.${sign(this.#keys[0]!, text).toString("base64url")}`;
  }

  /** The caller with this token; throws `unauthorized`, or `forbidden` if the token is for something else. */
  enter(token: string, { scope, jobId }: { readonly scope: TokenScope; readonly jobId: string }): Caller {
    const { job, created, scopes, exp, marks, name, by } = this.#read(token);
    if (exp * 1000 <= this.#clock().getTime()) {
      throw new ServiceError("unauthorized", "The token has expired", { detail: "Ask for a new one." });
    }
    if (this.#revoked.isRevoked({ job, name, marks })) {
      throw new ServiceError("unauthorized", "The token was revoked", { detail: "Ask for a new one." });
    }
    const maker = by === undefined ? undefined : this.#access.callerOf(by);
    if (by !== undefined && !maker) {
      throw new ServiceError("unauthorized", "The key that made the token is no longer valid", {
        detail: "Ask for a new token.",
      });
    }
    if (job !== jobId || !covers(scopes, scope)) {
      throw new ServiceError("forbidden", "The token does not allow this", {
        detail: `It is for one job, with the ${scopes.length === 1 ? "scope" : "scopes"} ${scopes.join(", ")}.`,
      });
    }
    const over =
      scope === "status" ? this.#revoked.over({ job, name, marks, exp }, maker?.over) : maker?.over;
    return {
      ...{ kind: "token", job, scopes, until: new Date(exp * 1000) },
      // No more than its maker sees, and of that one job, not of a later one of its id.
      sight: { ...maker?.sight, job, ...(created !== undefined && { jobCreated: created }) },
      ...(name !== undefined && { name }),
      ...(over && { over }),
    };
  }

  #read(token: string): TokenGrant {
    const cut = token.lastIndexOf(".");
    const text = token.slice(0, Math.max(cut, 0));
    const sent = Buffer.from(token.slice(cut + 1), "base64url");
    const isSigned = this.#keys.some((key) => {
      const right = sign(key, text);
      return sent.length === right.length && timingSafeEqual(sent, right);
    });
    if (!isSigned || !text.startsWith(TOKEN_PREFIX)) {
      throw new ServiceError("unauthorized", "Invalid token", {
        detail: "Ask for a new one, or send a key of the service in the X-API-Key header.",
      });
    }
    const payload = Buffer.from(text.slice(TOKEN_PREFIX.length), "base64url").toString();
    return v.parse(GrantSchema, JSON.parse(payload));
  }
}

function sign(key: Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
