/** A cost that an agent tells of something; none is 0. */
export function readCost(cost: number | null | undefined, what: string): number {
  if (cost === undefined || cost === null) return 0;
  if (Number.isFinite(cost) && cost >= 0) return cost;
  throw new TypeError(`${what} has the cost ${cost}: it must be a number, 0 or more`);
}
