import * as v from "valibot";
import { JsonMapSchema } from "./scalars.ts";

export const EventTypeSchema = v.picklist([
  "agent.register",
  "server.register",
  "agent.wakeup",
  "agent.anomaly",
  "agent.intermediary",
  "agent.job.start.confirmation",
  "agent.job.end",
  "agent.job.status",
  "agent.job.result",
  "agent.job.error",
  "agent.case.start",
  "agent.case.end",
  "agent.case.status",
  "agent.case.result",
  "agent.case.update",
]);
export type EventType = v.InferOutput<typeof EventTypeSchema>;

/** A message to the control system. */
export const EventSchema = v.object({
  source: JsonMapSchema,
  account: v.unknown(),
  type: EventTypeSchema,
  object_type: v.string(),
  details: JsonMapSchema,
});
export type ControlEvent = v.InferOutput<typeof EventSchema>;
