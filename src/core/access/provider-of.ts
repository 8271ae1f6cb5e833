import type { GithubSignIn } from "./github.ts";
import { GithubProvider } from "./github-provider.ts";
import { IdentityProvider, type PersonProvider } from "./identity-provider.ts";
import type { OidcSignIn } from "./oidc.ts";
import type { ProxySignIn } from "./proxy-auth.ts";

/** What signs people in on the pages; `undefined` where a proxy does, or nobody. */
export function providerOf(
  signIn: ProxySignIn | OidcSignIn | GithubSignIn | undefined,
): PersonProvider | undefined {
  if (signIn?.kind === "oidc") return new IdentityProvider(signIn);
  return signIn?.kind === "github" ? new GithubProvider(signIn) : undefined;
}
