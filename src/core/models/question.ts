import * as v from "valibot";
import { AgentMethodFieldSchema } from "./agent-method-field.ts";
import { JsonMapSchema, optional, TimestampSchema } from "./scalars.ts";

/** What happens when nobody answers before the deadline. */
export const OnTimeoutSchema = v.picklist(["fail", "default", "cancel"]);
export type OnTimeout = v.InferOutput<typeof OnTimeoutSchema>;

/** The open question of a case. */
export const QuestionSchema = v.object({
  /** Unique in the case: the position of the `ask` call. */
  id: v.string(),
  question: v.string(),
  fields: v.array(AgentMethodFieldSchema),
  asked_at: TimestampSchema,
  deadline: optional(TimestampSchema),
  on_timeout: v.optional(OnTimeoutSchema, "fail"),
  default: optional(JsonMapSchema),
});
export type Question = v.InferOutput<typeof QuestionSchema>;
