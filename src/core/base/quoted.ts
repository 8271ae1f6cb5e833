/** A word as a shell takes it; addresses and names seldom need more. */
export function quoted(word: string): string {
  return /^[\w:/.[\]@%~+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
