/** A key that the service signs with: P-256, for ES256. */
export interface SigningKey {
  /** `present`, or the name of a former key, which verifies what it has signed. */
  readonly id: string;
  /** Its name: RFC 7638. */
  readonly kid: string;
  /** The public key. */
  readonly x: string;
  readonly y: string;
  /** The private key, encrypted for the RSA key of the service; a former key has none. */
  readonly sealed: string | null;
  /** ISO 8601. */
  readonly since: string;
  readonly until: string | null;
}
