import { type OidcOptions, type OidcSignIn, oidc } from "./oidc.ts";
import type { SignIn } from "./sign-in.ts";

/**
 * People sign in to the admin pages with Google. The domain of a Google Workspace is a group; who has an account of their
 * own is in none.
 *
 * @example
 * createServer({
 *   agents,
 *   access: {
 *     signIn: oidc.google({
 *       clientId: "1234.apps.googleusercontent.com",
 *       clientSecret: process.env.GOOGLE_CLIENT_SECRET,
 *       roles: { "ada@example.com": "admin", "group:example.com": "viewer" },
 *     }),
 *   },
 * });
 */
export function google({
  clientId,
  clientSecret,
  roles,
  ...others
}: Pick<OidcOptions, "clientId" | "clientSecret" | "roles">): SignIn {
  const known = { issuer: "https://accounts.google.com", groups: "hd", label: "Google" };
  const signIn = oidc({ ...others, ...known, clientId, clientSecret, roles }) as OidcSignIn;
  // Without both, Google gives a token to ask again with at most once for each person.
  const withGoogle: OidcSignIn = { ...signIn, parameters: { access_type: "offline", prompt: "consent" } };
  return withGoogle;
}
