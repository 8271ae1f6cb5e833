import * as v from "valibot";
import { checkOptions } from "../base/check-options.ts";
import { assertSecure } from "./proxy-auth.ts";
import { checkRoles, type RoleTable } from "./role-table.ts";
import type { SignIn } from "./sign-in.ts";

/** Options of `oidc.github`. */
export interface GithubOptions {
  /** Of an OAuth app, or of a GitHub App. */
  readonly clientId: string;
  readonly clientSecret: string;
  /** Who has which role: `group:acme` is an organization, `group:acme/platform` a team. Who is in no line does not get in. */
  readonly roles: RoleTable;
  /** Where GitHub is, such as that of an Enterprise Server. @default "https://github.com" */
  readonly url?: string;
}

/** Its options, checked. */
export interface GithubSignIn extends SignIn, Required<Omit<GithubOptions, "url">> {
  readonly kind: "github";
  /** Where GitHub is. */
  readonly issuer: string;
  readonly label: string;
}

const text = v.pipe(v.string(), v.minLength(1));
const OptionsSchema = v.object({
  ...{ clientId: text, clientSecret: text, roles: v.looseObject({}) },
  url: v.optional(v.pipe(v.string(), v.url()), "https://github.com"),
});

/**
 * People sign in to the admin pages with GitHub; organizations and teams are groups. Register
 * `<publicUrl>/admin/sign-in/back` as the callback address of the app.
 *
 * @example
 * createServer({
 *   agents,
 *   access: {
 *     signIn: oidc.github({
 *       clientId: "Ov23liExample",
 *       clientSecret: process.env.GITHUB_CLIENT_SECRET,
 *       roles: { "group:acme/platform": "operator", "group:acme": "viewer" },
 *     }),
 *   },
 * });
 */
export function github(options: GithubOptions): SignIn {
  const { url, ...checked } = checkOptions(OptionsSchema, options, { of: "of oidc.github" });
  assertSecure(url, "url of oidc.github");
  const signIn: GithubSignIn = {
    ...{ ...checked, kind: "github", label: "GitHub", issuer: url.replace(/\/+$/, "") },
    roles: checkRoles(options.roles, "roles of oidc.github"),
  };
  return signIn;
}
