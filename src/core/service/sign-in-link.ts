/** Makes links that sign a person in once; a plugin provides it as `SIGN_IN_LINK`. */
export interface SignInLinks {
  /** A link that works once, for a few minutes, while this process runs. `base` is the service's address. */
  create(base: string): SignInLink;
}

export interface SignInLink {
  readonly url: string;
  readonly expiresAt: Date;
}
