import * as v from "valibot";
import { TimestampSchema } from "./scalars.ts";

/** The running service. `start_time` in seconds since the epoch. */
export const ServerInfoSchema = v.object({
  id: v.optional(v.string(), "server_instance"),
  host: v.string(),
  port: v.number(),
  api_version: v.string(),
  environment: v.string(),
  agents: v.array(v.record(v.string(), v.string())),
  start_time: v.number(),
  created_at: TimestampSchema,
  updated_at: TimestampSchema,
});
export type ServerInfo = v.InferOutput<typeof ServerInfoSchema>;
