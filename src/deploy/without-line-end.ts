/** A secret without the line break that tools and editors put at its end, wherever it comes from; undefined if nothing is left. */
export function withoutLineEnd(text: string | undefined): string | undefined {
  return text?.replace(/\r?\n$/, "") || undefined;
}
