/** How pauses between attempts grow. */
export interface Backoff {
  /** Milliseconds before the second attempt. */
  readonly first: number;
  /** The longest pause, in milliseconds. */
  readonly most: number;
  /** By how much each pause is longer than the one before. @default 2 */
  readonly factor?: number;
  /** The share of a pause that is random, so that many who failed together do not return together. @default 0 */
  readonly jitter?: number;
}

/** The pauses of a policy: milliseconds to wait after so many failures before the last one. */
export function delays({ first, most, factor = 2, jitter = 0 }: Backoff) {
  return (failures: number, random: () => number = Math.random): number => {
    // No pause stays none, however often it is multiplied.
    const full = Math.min(first * factor ** failures || 0, most);
    return jitter === 0 ? full : full * (1 - jitter) + full * jitter * random();
  };
}
