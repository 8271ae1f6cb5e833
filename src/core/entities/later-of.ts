/** The later of two times, ISO 8601: what is stored of an entity stays in order where the clock is set back. */
export function laterOf(one: string, other: string): string {
  return one < other ? other : one;
}
