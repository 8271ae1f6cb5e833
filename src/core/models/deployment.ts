import * as v from "valibot";
import { ClientTimestampSchema, JsonMapSchema, optional } from "./scalars.ts";

/** Kind of thing a deployment creates. */
export const ResourceTypeSchema = v.picklist([
  "service",
  "secret",
  "registry",
  "image",
  "environment_variable",
  "role",
  "volume",
  "database",
  "bucket",
  "proxy",
  "command",
]);
export type ResourceType = v.InferOutput<typeof ResourceTypeSchema>;

/** What happens to a resource; printed in upper case. */
export const ActionTypeSchema = v.picklist(["create", "update", "noop", "delete"]);

export const HealthStatusSchema = v.picklist(["healthy", "unhealthy", "timeout", "error", "unknown"]);

/** One planned change. `metadata.changes` lists changed fields as `{field, from, to}`, secrets as changed or unchanged. */
export const ResourceActionSchema = v.object({
  resource_type: ResourceTypeSchema,
  action_type: ActionTypeSchema,
  resource_name: v.string(),
  description: v.string(),
  cost_estimate: optional(v.string()),
  metadata: optional(JsonMapSchema),
});
export type ResourceAction = v.InferOutput<typeof ResourceActionSchema>;

/** What a deployment would do. */
export const DeploymentPlanSchema = v.object({
  platform: v.string(),
  service_name: v.string(),
  environment: v.string(),
  region: v.string(),
  project_id: optional(v.string()),
  actions: v.optional(v.array(ResourceActionSchema), []),
  total_cost_estimate: optional(v.string()),
  estimated_duration: optional(v.string()),
  current_image: optional(v.string()),
  current_url: optional(v.string()),
  current_status: optional(v.string()),
  target_image: v.string(),
  target_port: v.optional(v.number(), 8000),
  target_env_vars: v.record(v.string(), v.string()),
  /** Secret names to `"***"`: a plan contains no secret values. */
  target_secrets: v.record(v.string(), v.string()),
});
export type DeploymentPlan = v.InferOutput<typeof DeploymentPlanSchema>;

/** Result of a deployment. `deployment_time` in seconds. */
export const DeploymentResultSchema = v.object({
  success: v.boolean(),
  service_url: optional(v.string()),
  service_id: optional(v.string()),
  revision: optional(v.string()),
  image_digest: optional(v.string()),
  status: v.optional(v.string(), "unknown"),
  health_status: v.optional(v.string(), "unknown"),
  deployment_time: optional(v.number()),
  error_message: optional(v.string()),
  error_details: optional(JsonMapSchema),
});
export type DeploymentResult = v.InferOutput<typeof DeploymentResultSchema>;

/** State file, format version 2. Contains no secret values. */
export const DeploymentStateSchema = v.object({
  version: v.optional(v.literal(2), 2),
  service_name: v.string(),
  platform: v.string(),
  environment: v.string(),
  region: v.string(),
  project_id: optional(v.string()),
  image_tag: v.string(),
  image_digest: optional(v.string()),
  service_url: optional(v.string()),
  revision: optional(v.string()),
  created_at: ClientTimestampSchema,
  updated_at: ClientTimestampSchema,
  status: v.optional(v.string(), "unknown"),
  health_status: v.optional(v.string(), "unknown"),
  port: v.optional(v.number(), 8000),
  api_key_generated: v.optional(v.boolean(), false),
  rsa_key_generated: v.optional(v.boolean(), false),
  provider_data: v.optional(JsonMapSchema, {}),
});
export type DeploymentState = v.InferOutput<typeof DeploymentStateSchema>;

/** How health is polled. Times in seconds. */
export const HealthCheckConfigSchema = v.object({
  timeout: v.optional(v.number(), 60),
  max_retries: v.optional(v.number(), 5),
  base_delay: v.optional(v.number(), 1),
  max_delay: v.optional(v.number(), 30),
  backoff_multiplier: v.optional(v.number(), 2),
  success_threshold: v.optional(v.number(), 1),
  endpoints: optional(v.array(v.string())),
});
export type HealthCheckConfig = v.InferOutput<typeof HealthCheckConfigSchema>;

/** One health check. `response_time` in seconds, `timestamp` in seconds since the epoch. */
export const HealthCheckResultSchema = v.object({
  status: HealthStatusSchema,
  response_time: v.number(),
  status_code: optional(v.number()),
  error_message: optional(v.string()),
  endpoint: optional(v.string()),
  timestamp: v.optional(v.number(), 0),
  /** Where the service makes backups of its store: when it made the last one, as it says; null if none yet. */
  last_backup: v.optional(v.nullable(v.string())),
});
export type HealthCheckResult = v.InferOutput<typeof HealthCheckResultSchema>;
