import * as v from "valibot";
import { check } from "../../../core/http/check.ts";
import { EntityIdSchema } from "../../../core/models/scalars.ts";

const MOST = 100;

/** Query of the routes that give single rows: ids with commas between. */
export const IdsQuerySchema = v.object({ ids: v.pipe(v.string(), v.nonEmpty(), v.maxLength(20_200)) });

/** The ids, checked one by one. */
export function readIds({ ids }: v.InferOutput<typeof IdsQuerySchema>): string[] {
  return check(v.pipe(v.array(EntityIdSchema), v.maxLength(MOST)), ids.split(","), "query");
}
