import { notKnown, shownName } from "./not-known.ts";

/** All names of an interface: the compiler refuses a list that lacks one, or has one too many. */
export type NamesOf<T> = { readonly [Name in keyof Required<T>]: true };

/** Throws a `TypeError` where options have a name that is not known: it would be without effect. */
export function refuseUnknown(options: object, names: Readonly<Record<string, true>>, what: string): void {
  const problem = unknownOption(options, names);
  if (problem !== undefined) throw new TypeError(`${what}: ${problem}`);
}

/** The first name of options that is not known, and what may have been meant; `undefined` where all are known. */
export function unknownOption(options: object, names: Readonly<Record<string, unknown>>): string | undefined {
  for (const name in options)
    if (!Object.hasOwn(names, name)) return `${shownName(name)} ${notKnown(name, Object.keys(names))}`;
  return undefined;
}
