/** Gives a terminal that does not know its width the usual one: what is laid out for 0 columns has a letter in each line. */
export function knownWidth(stream: { readonly isTTY?: boolean; columns?: number }): void {
  if (stream.isTTY && !stream.columns) stream.columns = 80;
}
