import * as v from "valibot";
import { checkOptions } from "../base/check-options.ts";
import { assertSecure } from "./proxy-auth.ts";
import { checkRoles, type RoleTable } from "./role-table.ts";
import type { SignIn } from "./sign-in.ts";

/** Options of `oidc`. */
export interface OidcOptions {
  /** The identity provider: its configuration is at `<issuer>/.well-known/openid-configuration`. */
  readonly issuer: string;
  /** What the provider knows the service by. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** Who has which role. Who is in no line does not get in. */
  readonly roles: RoleTable;
  /** The claim with the groups, such as `realm_access.roles`. @default "groups" */
  readonly groups?: string;
  /** What the provider is asked for. `offline_access` is what most need to say later that a person was removed. @default "openid email profile" */
  readonly scope?: string;
  /** What the button for signing in names. @default the host of the issuer */
  readonly label?: string;
}

/** Its options, checked. */
export interface OidcSignIn extends SignIn, Required<OidcOptions> {
  readonly kind: "oidc";
  /** What the provider is sent besides, when somebody signs in. */
  readonly parameters?: Readonly<Record<string, string>>;
}

const text = v.pipe(v.string(), v.minLength(1));
const OptionsSchema = v.object({
  ...{ issuer: v.pipe(v.string(), v.url()), clientId: text, clientSecret: text, roles: v.looseObject({}) },
  groups: v.optional(text, "groups"),
  scope: v.optional(
    v.pipe(v.string(), v.regex(/\bopenid\b/, 'must contain "openid"')),
    "openid email profile",
  ),
  label: v.optional(text),
});

/**
 * People sign in to the admin pages at an identity provider with OpenID Connect: by the code flow, with PKCE, `state` and
 * `nonce`.
 *
 * @example
 * createServer({
 *   agents,
 *   access: {
 *     signIn: oidc({
 *       issuer: "https://login.example.com",
 *       clientId: "agents",
 *       clientSecret: process.env.CLIENT_SECRET,
 *       roles: { "group:platform": "admin", "*": "viewer" },
 *     }),
 *   },
 * });
 */
export function oidc(options: OidcOptions): SignIn {
  const checked = checkOptions(OptionsSchema, options, { of: "of oidc" });
  assertSecure(options.issuer, "issuer of oidc");
  const signIn: OidcSignIn = {
    ...checked,
    kind: "oidc",
    label: checked.label ?? new URL(checked.issuer).host,
    roles: checkRoles(options.roles, "roles of oidc"),
  };
  return signIn;
}
