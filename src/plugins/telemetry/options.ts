import * as v from "valibot";
import { atLeast, checkOptions, wholeAtLeast } from "../../core/base/check-options.ts";
import { LOG_LEVELS } from "../../core/base/log.ts";
import type { TelemetrySeverity } from "../../core/models/telemetry.ts";

/** Options of the plugin `telemetry`; times in seconds. */
export interface TelemetryOptions {
  /** Share of telemetry that is sent, by severity, 0 to 1. @default everything but a tenth of debug */
  sample?: Partial<Record<TelemetrySeverity, number>>;
  /** Time after which collected telemetry is sent. @default 2 */
  interval?: number;
  /** Maximum telemetry in memory; beyond it the oldest is dropped and counted. @default 2000 */
  buffer?: number;
  /** Time between two reports of the service's own metrics; 0 sends none. @default 60 */
  metricsInterval?: number;
  /** Lowest level of log lines that are sent; `none` sends none. @default "warn" */
  logs?: "debug" | "info" | "warn" | "error" | "none";
}

const share = (fallback: number) =>
  v.optional(v.pipe(atLeast(0), v.maxValue(1, "must be at most 1")), fallback);
const SHARES = { debug: share(0.1), info: share(1), warning: share(1), error: share(1), critical: share(1) };
const OptionsSchema = v.object({
  sample: v.optional(v.object(SHARES satisfies Record<TelemetrySeverity, unknown>), {}),
  interval: v.optional(atLeast(0), 2),
  buffer: v.optional(wholeAtLeast(1), 2000),
  metricsInterval: v.optional(atLeast(0), 60),
  logs: v.optional(v.picklist([...LOG_LEVELS, "none"]), "warn"),
});

export type ResolvedTelemetryOptions = Readonly<v.InferOutput<typeof OptionsSchema>>;

/** Fills in the defaults; throws if an option is invalid. */
export function resolveTelemetryOptions(options: TelemetryOptions): ResolvedTelemetryOptions {
  return checkOptions(OptionsSchema, options, { of: 'of plugin "telemetry"' });
}
