/** A number of things in words: `1 job`, `1,234 jobs`. */
export function countOf(count: number, one: string, several = `${one}s`): string {
  return `${count.toLocaleString("en-US")} ${count === 1 ? one : several}`;
}
