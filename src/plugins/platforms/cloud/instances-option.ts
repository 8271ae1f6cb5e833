import * as v from "valibot";

/** How many instances there are, from `least` to `most`; `why` tells why there are no fewer. */
export const instancesOption = (description: string, least: number, most: number, why?: string) =>
  v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(least, `must be at least ${least}${why === undefined ? "" : `: ${why}`}`),
      v.maxValue(most, `must be at most ${most}`),
      v.description(description),
    ),
  );
