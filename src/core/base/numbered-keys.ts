const BASE = "SERVICE_RSA_PRIVATE_KEY";
const FORMER = "SERVICE_PREVIOUS_RSA_PRIVATE_KEY";
const NUMBER = new RegExp(`^${BASE}_([2-9]|[1-9]\\d{1,3})$`);

/**
 * Whether a variable has an RSA key by number: `SERVICE_RSA_PRIVATE_KEY_2` replaces `SERVICE_RSA_PRIVATE_KEY`, the next number
 * replaces this one. So a key can be replaced where nobody can read it, and none is written over.
 */
export function isNumberedKey(name: string): boolean {
  return NUMBER.test(name);
}

/** The variables among these that have the RSA key and those that it replaced, the present one first. */
export function rsaKeyNames(names: readonly string[]): string[] {
  return names
    .filter((name) => name === BASE || isNumberedKey(name))
    .sort((one, other) => numberOf(other) - numberOf(one));
}

/** The variable of the RSA key that replaces those of these variables. */
export function nextKeyName(names: readonly string[]): string {
  const [newest] = rsaKeyNames(names);
  return `${BASE}_${newest === undefined ? 2 : numberOf(newest) + 1}`;
}

/** Variables in which the newest RSA key is the present one, and the others are former ones. */
export function withoutNumbers(
  env: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string | undefined>> {
  const [newest, ...others] = rsaKeyNames(Object.keys(env).filter((name) => env[name]));
  if (newest === undefined || newest === BASE) return env;
  const former = [...others, FORMER].flatMap((name) => env[name] || []);
  const rest = Object.fromEntries(Object.entries(env).filter(([name]) => !isNumberedKey(name)));
  return { ...rest, [BASE]: env[newest], [FORMER]: former.length > 0 ? former.join("\n") : undefined };
}

function numberOf(name: string): number {
  return Number(NUMBER.exec(name)?.[1] ?? 1);
}
