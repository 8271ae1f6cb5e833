import type { OidcSignIn } from "./oidc.ts";
import type { ProxySignIn } from "./proxy-auth.ts";

/** How people sign in. */
export type SignIn = ProxySignIn | OidcSignIn;

/** The ways to sign in: anything else would let nobody in, or everybody. */
export const SIGN_INS: readonly SignIn["kind"][] = ["proxy", "oidc"];
