/** How people sign in: what `oidc`, `oidc.google`, `oidc.github` or `proxyAuth` gives to `createServer`. */
export interface SignIn {
  readonly kind: "proxy" | "oidc" | "github";
}

/** The ways to sign in: anything else would let nobody in, or everybody. */
export const SIGN_INS: readonly SignIn["kind"][] = ["proxy", "oidc", "github"];
