/** How people sign in: what `oidc` or `proxyAuth` gives to `createServer`. */
export interface SignIn {
  readonly kind: "proxy" | "oidc";
}

/** The ways to sign in: anything else would let nobody in, or everybody. */
export const SIGN_INS: readonly SignIn["kind"][] = ["proxy", "oidc"];
