/** Bits of a key that cannot be guessed. */
const STRONG = 128;

const ALPHABETS = [
  [/^[0-9]+$/, 10],
  [/^([0-9a-f]+|[0-9A-F]+)$/, 16],
  [/^([a-z]+|[A-Z]+)$/, 26],
  [/^([a-z0-9]+|[A-Z0-9]+)$/, 36],
  [/^[A-Za-z0-9]+$/, 62],
  [/^[A-Za-z0-9_-]+$/, 64],
] as const;

/** A warning for each weak key; the key is not part of it. */
export function describeWeakKeys(keys: {
  readonly apiKey?: string | undefined;
  readonly previousApiKey?: string | undefined;
}): string[] {
  const given = [
    ["apiKey (SERVICE_API_KEY)", keys.apiKey],
    ["previousApiKey (SERVICE_PREVIOUS_API_KEY)", keys.previousApiKey],
  ] as const;
  return given
    .filter(([, key]) => key !== undefined && !isStrong(key))
    .map(
      ([name]) =>
        `Option ${name} is a key of less than ${STRONG} bits. Generate a stronger one: openssl rand -hex 32`,
    );
}

/** Whether a key has so many bits that nobody guesses it. */
export function isStrong(key: string): boolean {
  return estimateBits(key) >= STRONG;
}

/**
 * Upper bound of a key's entropy, in bits: its length in its alphabet, without repetitions and sequences. A
 * key that a person made up has less.
 */
export function estimateBits(key: string): number {
  const size = ALPHABETS.find(([pattern]) => pattern.test(key))?.[1] ?? 94;
  const [, unit = key] = /^(.+?)\1+$/.exec(key) ?? [];
  const steps = Array.from(unit, (_, at) => unit.charCodeAt(at) - unit.charCodeAt(at - 1));
  const surprising = steps.filter((step, at) => step !== steps[at - 1]).length;
  // By chance a few follow the one before.
  const counts = surprising > unit.length * 0.6 ? unit.length : surprising;
  return Math.floor(counts * Math.log2(size));
}
