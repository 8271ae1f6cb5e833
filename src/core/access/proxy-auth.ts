import * as v from "valibot";
import { checkOptions, OptionsError } from "../base/check-options.ts";
import { isLoopback } from "../base/loopback.ts";
import { checkRoles, type RoleTable } from "./role-table.ts";
import type { SignIn } from "./sign-in.ts";

/** Options of `proxyAuth`. */
export interface ProxyAuthOptions {
  /** Where the proxy publishes the public keys that it signs with, or these keys. */
  readonly jwks: string | { readonly keys: readonly object[] };
  /** Who signs: the claim `iss` of an assertion must be this. */
  readonly issuer: string;
  /** For whom it signs: the claim `aud` of an assertion must have one of these. */
  readonly audience: string | readonly string[];
  /** Header with the assertion, such as `Cf-Access-Jwt-Assertion`; with `Authorization`, a bearer token. */
  readonly header: string;
  /** Who has which role. Who is in no line does not get in. */
  readonly roles: RoleTable;
  /** The claim with the groups, such as `realm_access.roles`. @default "groups" */
  readonly groups?: string;
  /** Seconds that the clocks of the proxy and of this machine may differ, at most 120. @default 30 */
  readonly clockSkew?: number;
}

/** Its options, checked. */
export interface ProxySignIn extends SignIn, ProxyAuthOptions {
  readonly kind: "proxy";
  readonly audience: readonly string[];
  readonly groups: string;
  readonly clockSkew: number;
}

const texts = v.union([
  v.pipe(v.string(), v.minLength(1)),
  v.pipe(v.array(v.pipe(v.string(), v.minLength(1))), v.minLength(1)),
]);

const OptionsSchema = v.object({
  jwks: v.union([v.string(), v.looseObject({ keys: v.pipe(v.array(v.looseObject({})), v.minLength(1)) })]),
  issuer: v.pipe(v.string(), v.minLength(1)),
  audience: texts,
  header: v.pipe(v.string(), v.regex(/^[A-Za-z0-9-]+$/, "must be the name of a header")),
  roles: v.looseObject({}),
  groups: v.optional(v.pipe(v.string(), v.minLength(1)), "groups"),
  clockSkew: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(120)), 30),
});

/**
 * People come through a proxy that signs who they are, such as Cloudflare Access, Identity-Aware Proxy or oauth2-proxy. The
 * signature, the issuer, the audience and the times of the assertion are checked at each request; a header without a
 * signature is never believed.
 *
 * @example
 * createServer({
 *   agents,
 *   access: {
 *     signIn: proxyAuth({
 *       jwks: "https://example.cloudflareaccess.com/cdn-cgi/access/certs",
 *       issuer: "https://example.cloudflareaccess.com",
 *       audience: "4714c1358e65fe4b408ad6d432a5f878f08194bdb4752441fd56faefa9b2b6f2",
 *       header: "Cf-Access-Jwt-Assertion",
 *       roles: { "group:platform": "admin", "*": "viewer" },
 *     }),
 *   },
 * });
 */
export function proxyAuth(options: ProxyAuthOptions): SignIn {
  const checked = checkOptions(OptionsSchema, options, { of: "of proxyAuth" });
  if (typeof options.jwks === "string") assertSecure(options.jwks, "jwks of proxyAuth");
  const signIn: ProxySignIn = {
    ...{ kind: "proxy", issuer: checked.issuer, jwks: options.jwks, header: checked.header.toLowerCase() },
    ...{ groups: checked.groups, clockSkew: checked.clockSkew },
    audience: [checked.audience].flat(),
    roles: checkRoles(options.roles, "roles of proxyAuth"),
  };
  return signIn;
}

/** Throws where an address can be answered by anybody on the way. */
export function assertSecure(url: string, option: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const isLocal = parsed?.protocol === "http:" && isLoopback(parsed.hostname);
  const isSecure = parsed?.protocol === "https:" || isLocal;
  if (!isSecure) throw new OptionsError(`Option ${option} must be an address that begins with https://`);
}
