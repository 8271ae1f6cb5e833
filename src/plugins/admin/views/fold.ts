/** A section of a list; one with a label is folded and opened by it. */
export interface Fold<T> {
  readonly label: string;
  readonly items: readonly T[];
}

/** A long list in two sections: a visible one, and the rest folded behind a label. */
export function fold<T>(items: readonly T[], shown: number, label: (count: number) => string): Fold<T>[] {
  const seen = { label: "", items: items.slice(0, shown) };
  const rest = items.slice(shown);
  return rest.length === 0 ? [seen] : [seen, { label: label(rest.length), items: rest }];
}
