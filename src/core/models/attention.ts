import * as v from "valibot";
import { TimestampSchema } from "./scalars.ts";

/** What can need a person, the most urgent first. */
export const ATTENTION_KINDS = [
  "store",
  "backup",
  "deliveries",
  "stuck",
  "held",
  "failures",
  "questions",
  "budget",
  "paused",
] as const;

/** One thing that needs a person. */
export const AttentionItemSchema = v.object({
  kind: v.picklist(ATTENTION_KINDS),
  /** `bad` where something is broken, `warn` where something waits. */
  severity: v.picklist(["bad", "warn"]),
  /** In one sentence. */
  text: v.string(),
  /** How many jobs, questions or messages it is about. */
  count: v.number(),
  /** The agent that it is about; null where it is about the service, or several. */
  agent: v.nullable(v.string()),
  /** Why jobs are held, the id of the reason of failures, or the period of a budget; null for the rest. */
  reason: v.nullable(v.string()),
  /** The jobs that are stuck, at most 100. */
  job_ids: v.array(v.string()),
  /** Since when; null where that is not known. */
  since: v.nullable(TimestampSchema),
});
export type AttentionItem = Readonly<v.InferOutput<typeof AttentionItemSchema>>;

/** All that needs a person, the most urgent first; empty where nothing does. */
export const AttentionSchema = v.object({ items: v.array(AttentionItemSchema) });
