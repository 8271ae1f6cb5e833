// Service

export type { DeclaredKey, DeclaredKeyOptions } from "./core/access/declared-keys.ts";
export { type OidcOptions, type OidcSignIn, oidc } from "./core/access/oidc.ts";
export { type ProxyAuthOptions, type ProxySignIn, proxyAuth } from "./core/access/proxy-auth.ts";
export type { ReceiverOptions, Signer } from "./core/access/receivers.ts";
export type { PersonAccess, RoleTable } from "./core/access/role-table.ts";
export type { SignIn } from "./core/access/sign-in.ts";
export type { AcceptedEnvelopes } from "./core/agents/parameters.ts";
export type { KeptStatus, RetentionOptions, RetentionPolicy } from "./core/agents/retention-policy.ts";
export type { LogFormat, Logger, LogLevel } from "./core/base/log.ts";
export type { TrustProxy } from "./core/http/clients.ts";
export type { FetchHandler, HttpServer, Serve, ServeOptions } from "./core/http/serve.ts";
export type { Account } from "./core/models/account.ts";
export type { ScheduleDefinition } from "./core/runs/schedules/define-schedule.ts";
export type { BackupOptions } from "./core/service/backup-options.ts";
export type { AccessOptions, ServerOptions } from "./core/service/options.ts";
export type { ListenOptions, Service } from "./core/service/service.ts";
export type { ServiceOptions } from "./core/service/service-options.ts";
export type { Durability } from "./core/store/durability.ts";
export { createServer } from "./server.ts";

// Agents

export type { BudgetOptions } from "./core/agents/budget.ts";
export type { ConcurrencyOptions, JobKey, RateLimit } from "./core/agents/concurrency.ts";
export type * from "./core/agents/define-agent.ts";
export { defineAgent } from "./core/agents/define-agent.ts";
export type {
  ChatDefinition,
  ChatFields,
  ChatMessage,
  ReplyContext,
  TurnDelivery,
} from "./core/agents/define-chat.ts";
export { defineChat } from "./core/agents/define-chat.ts";
export type * from "./core/agents/fields-input.ts";
export { type FileFieldOptions, file } from "./core/agents/file.ts";
export type { FileData, NewFileOptions, OpenFile } from "./core/agents/file-content.ts";
export type { AgentInstructions } from "./core/agents/instructions.ts";
export type { IsolateOptions } from "./core/agents/isolate-options.ts";
export type { ModelCost, ModelPrice, PriceTable } from "./core/agents/model-prices.ts";
export { MODEL_PRICES, prices } from "./core/agents/model-prices.ts";
export type * from "./core/agents/run-context.ts";
export type { ModelUsage, StepReport } from "./core/agents/step-report.ts";
export { type Duration, isDuration } from "./core/base/duration.ts";
export type { MaybePromise } from "./core/base/maybe-promise.ts";
export type { Need, Right, Role, Sight } from "./core/models/access.ts";
export type { AgentMethodFieldInput } from "./core/models/agent-method-field.ts";
export type { CaseNode } from "./core/models/case-node.ts";
export type { FileValue } from "./core/models/file.ts";
export type { ParameterInput } from "./core/models/parameter.ts";
export type { OnTimeout, Question } from "./core/models/question.ts";
export type { TelemetryCategory, TelemetrySeverity, TelemetryType } from "./core/models/telemetry.ts";

// Errors

export { NonRetryableError, RetryAfterError } from "./core/agents/retry-errors.ts";
export { AgentError } from "./core/agents/validate-agent.ts";
export { OptionsError } from "./core/base/check-options.ts";
export { ServiceError, type ServiceErrorOptions } from "./core/base/errors.ts";
export {
  ChildFailedError,
  EventTimeoutError,
  NondeterminismError,
  QuestionExpiredError,
  type RunEnd,
  RunEndedError,
  StepFailedError,
} from "./core/runs/replay/run-errors.ts";

// Jobs and cases

export type { Case, StoredCase } from "./core/models/case.ts";
export type { CaseNodeUpdate, CaseNodeUpdateInput } from "./core/models/case-node-update.ts";
export type { EntityStatus } from "./core/models/entity-status.ts";
export type { ErrorResponse, ErrorType } from "./core/models/error-response.ts";
export type { Held, Job, Parent, StopReason, StoredJob } from "./core/models/job.ts";
export type { JobContext, StartContext } from "./core/models/job-context.ts";
export type { JobInstructions } from "./core/models/job-instructions.ts";
export type { JobResponse } from "./core/models/job-response.ts";
export type { ModelFacts, ModelUse, StepKind } from "./core/models/model-use.ts";
export type * from "./core/models/run-entry.ts";
export type { Suspended } from "./core/models/suspended.ts";

// Built-in plugins

export type { Resolve } from "./core/delivery/guarded-post.ts";
export type { Fetch } from "./core/delivery/post-json.ts";
export type { EventType } from "./core/models/event.ts";
export { admin } from "./plugins/admin/index.ts";
export type { AdminOptions } from "./plugins/admin/options.ts";
export { docs } from "./plugins/docs/index.ts";
export type { EventsOptions } from "./plugins/events/options.ts";
export { events } from "./plugins/events/plugin.ts";
export type { TelemetryOptions } from "./plugins/telemetry/options.ts";
export { telemetry } from "./plugins/telemetry/plugin.ts";
export type { WebhookOptions, WebhooksOptions } from "./plugins/webhooks/plugin.ts";
export { webhooks } from "./plugins/webhooks/plugin.ts";
