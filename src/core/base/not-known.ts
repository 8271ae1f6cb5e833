import { suggest } from "./suggest.ts";

/** More names than this do not help a reader. */
const MOST_NAMES = 12;
/** Longer names are cut: they come from outside. */
const LONGEST_NAME = 100;

/** Why a name is refused, phrased to follow it, with the known name that is closest, or with those that are known. */
export function notKnown(name: string, known: readonly string[]): string {
  const meant = suggest(name.slice(0, LONGEST_NAME), known);
  if (meant !== undefined) return `is not known: did you mean ${meant}?`;
  if (known.length === 0) return "is not accepted here";
  return known.length > MOST_NAMES ? "is not known" : `is not known here, only ${known.join(", ")}`;
}

/** A name from outside, as an error shows it. */
export function shownName(name: string): string {
  return name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name;
}
