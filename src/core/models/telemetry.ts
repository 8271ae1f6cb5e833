import * as v from "valibot";
import { JsonMapSchema } from "./scalars.ts";

export const TelemetryTypeSchema = v.picklist([
  "logs",
  "metrics",
  "events",
  "traces",
  "exceptions",
  "diagnostics",
  "custom",
]);
export type TelemetryType = v.InferOutput<typeof TelemetryTypeSchema>;

export const TelemetryCategorySchema = v.picklist([
  "system",
  "application",
  "user_interaction",
  "security",
  "business",
  "environment",
  "networking",
  "custom",
]);
export type TelemetryCategory = v.InferOutput<typeof TelemetryCategorySchema>;

export const TelemetrySeveritySchema = v.picklist(["debug", "info", "warning", "error", "critical"]);
export type TelemetrySeverity = v.InferOutput<typeof TelemetrySeveritySchema>;

/** One piece of monitoring data from an agent. */
export const TelemetrySchema = v.object({
  agentId: v.string(),
  type: TelemetryTypeSchema,
  category: TelemetryCategorySchema,
  severity: TelemetrySeveritySchema,
  details: JsonMapSchema,
});
export type Telemetry = v.InferOutput<typeof TelemetrySchema>;
