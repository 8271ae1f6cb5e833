/** A sum of amounts of money without the noise of adding decimal fractions: 0.3, and not 0.30000000000000004. */
export function exactAmount(amount: number): number {
  return Number(amount.toPrecision(14));
}
