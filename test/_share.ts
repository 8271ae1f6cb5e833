/**
 * Which of several costly variants this run tries: every `of`th, beginning with another one in each commit's check
 * (`SVC_SHARE`, a number). Without it, all.
 */
export function shareOf<T>(all: readonly T[], of: number): readonly T[] {
  const share = process.env.SVC_SHARE;
  if (!share) return all;
  const first = Number(share) % of;
  return all.filter((_, at) => at % of === first);
}

/** The time limit of a test that runs such a share in so many milliseconds, or all of them one after another. */
export function limitOf(milliseconds: number, of: number): number {
  return process.env.SVC_SHARE ? milliseconds : milliseconds * of;
}
