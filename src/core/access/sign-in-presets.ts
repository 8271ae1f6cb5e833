import { github } from "./github.ts";
import { google } from "./google.ts";
import { oidc as atProvider } from "./oidc.ts";

/**
 * People sign in to the admin pages at an identity provider with OpenID Connect: by the code flow, with PKCE, `state` and
 * `nonce`. `oidc.google` and `oidc.github` know what these two need; GitHub speaks OAuth.
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
export const oidc: typeof atProvider & {
  readonly google: typeof google;
  readonly github: typeof github;
} = Object.assign(atProvider, { google, github });
