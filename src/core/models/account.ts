import * as v from "valibot";
import { HttpUrlSchema, optional } from "./scalars.ts";

/** Account at the control system. */
export const AccountSchema = v.object({
  workspace_id: v.pipe(v.string(), v.nonEmpty()),
  api_key: v.pipe(v.string(), v.nonEmpty()),
  api_url: HttpUrlSchema,
});
export type Account = v.InferOutput<typeof AccountSchema>;

/** Account as stored and shown: `api_key` is always `null`. */
export const AccountRefSchema = v.object({
  workspace_id: v.string(),
  api_key: v.optional(v.null(), null),
  api_url: optional(v.string()),
});
export type AccountRef = v.InferOutput<typeof AccountRefSchema>;
