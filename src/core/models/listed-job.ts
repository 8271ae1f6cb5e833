import * as v from "valibot";
import { JobResponseSchema } from "./job-response.ts";
import { ShownStateSchema } from "./job-state.ts";
import { TimestampSchema } from "./scalars.ts";

/** A job in a list: its newest response, whose it is, and since when it exists. */
export const ListedJobSchema = v.object({
  ...JobResponseSchema.entries,
  agent_name: v.string(),
  /** What it does, as people mean it. */
  state: ShownStateSchema,
  tags: v.array(v.string()),
  created_at: TimestampSchema,
});
export type ListedJob = v.InferOutput<typeof ListedJobSchema>;
