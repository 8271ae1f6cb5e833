/** A sum of amounts of money without the noise of adding decimal fractions: 0.3, and not 0.30000000000000004. */
export function exactAmount(amount: number): number {
  return Number(amount.toPrecision(14));
}

/** The sum of any number of amounts. Each addition is rounded, as the noise of a thousand would be seen. */
export function exactSum(amounts: readonly number[]): number {
  return amounts.reduce((sum, amount) => exactAmount(sum + amount), 0);
}
