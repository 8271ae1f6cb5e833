import * as v from "valibot";
import { AgentMethodFieldSchema } from "./agent-method-field.ts";
import { JsonMapSchema, optional, TimestampSchema } from "./scalars.ts";

/** What happens when nobody answers before the deadline. */
export const OnTimeoutSchema = v.picklist(["fail", "default", "cancel"]);
export type OnTimeout = v.InferOutput<typeof OnTimeoutSchema>;

/** The open question of a case. */
export const QuestionSchema = v.object({
  /** Unique in the case. */
  id: v.string(),
  /** The agent's name for it, independent of its text. */
  name: v.optional(v.string()),
  question: v.string(),
  /** For the person who answers: why the question is asked again. */
  note: v.optional(v.string()),
  fields: v.array(AgentMethodFieldSchema),
  asked_at: TimestampSchema,
  deadline: optional(TimestampSchema),
  on_timeout: v.optional(OnTimeoutSchema, "fail"),
  default: optional(JsonMapSchema),
});
export type Question = v.InferOutput<typeof QuestionSchema>;

/** Answer to a question raised by a case. */
export const CaseUpdateRequestSchema = v.object({
  answer: JsonMapSchema,
  message: optional(v.string()),
});
export type CaseUpdateRequest = v.InferOutput<typeof CaseUpdateRequestSchema>;
