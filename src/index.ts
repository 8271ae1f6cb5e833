// Service

export { proxyAuth } from "./core/access/proxy-auth.ts";
export type { SignIn } from "./core/access/sign-in.ts";
export { oidc } from "./core/access/sign-in-presets.ts";
export type { Logger } from "./core/base/log.ts";
export type { ScheduleDefinition } from "./core/runs/schedules/define-schedule.ts";
export type { ServerOptions } from "./core/service/options.ts";
export type { Service } from "./core/service/service.ts";
export type { ServiceOptions } from "./core/service/service-options.ts";
export { createServer } from "./server.ts";

// Agents

export type { AgentDefinition, ParameterValues } from "./core/agents/define-agent.ts";
export { defineAgent } from "./core/agents/define-agent.ts";
export type {
  ChatDefinition,
  ChatFields,
  ChatMessage,
  ReplyContext,
  TurnDelivery,
} from "./core/agents/define-chat.ts";
export { defineChat } from "./core/agents/define-chat.ts";
export type { FieldsInput, FieldValues, GivenFields } from "./core/agents/fields-input.ts";
export { file } from "./core/agents/file.ts";
export type { FileData, OpenFile } from "./core/agents/file-content.ts";
export type { ModelCost, ModelPrice } from "./core/agents/model-prices.ts";
export { prices } from "./core/agents/model-prices.ts";
export type {
  AskOptions,
  CaseHandle,
  ChatContext,
  ChildHandle,
  CustomContext,
  HumanAnswerContext,
  JobHandle,
  JobStartContext,
  JobStatusContext,
  JobStopContext,
  ModelOptions,
  ParameterMap,
  ReceivedEvent,
  ResultOf,
  StartableAgent,
  StartOptions,
  StepInfo,
  StepOptions,
  WaitOptions,
} from "./core/agents/run-context.ts";
export { type Duration, isDuration } from "./core/base/duration.ts";
export type { MaybePromise } from "./core/base/maybe-promise.ts";
export type { Role, Sight } from "./core/models/access.ts";
export type { AgentMethodFieldInput } from "./core/models/agent-method-field.ts";
export type { FileValue } from "./core/models/file.ts";
export type { ParameterInput } from "./core/models/parameter.ts";
export type { OnTimeout, Question } from "./core/models/question.ts";

// Errors

export { NonRetryableError, RetryAfterError } from "./core/agents/retry-errors.ts";
export { AgentError } from "./core/agents/validate-agent.ts";
export { OptionsError } from "./core/base/check-options.ts";
export { ServiceError } from "./core/base/errors.ts";
export {
  ChildFailedError,
  EventTimeoutError,
  NondeterminismError,
  QuestionExpiredError,
  RunEndedError,
  StepFailedError,
} from "./core/runs/replay/run-errors.ts";

// Jobs and cases

export type { Case, StoredCase } from "./core/models/case.ts";
export type { CaseNodeUpdate } from "./core/models/case-node-update.ts";
export type { EntityStatus } from "./core/models/entity-status.ts";
export type { ErrorResponse, ErrorType } from "./core/models/error-response.ts";
export type { Job, StopReason, StoredJob } from "./core/models/job.ts";
export type { JobContext } from "./core/models/job-context.ts";
export type { JobInstructions } from "./core/models/job-instructions.ts";
export type { ModelFacts, StepKind } from "./core/models/model-use.ts";
export type { CallEntryBase, RunEntry } from "./core/models/run-entry.ts";
export type { Suspended } from "./core/models/suspended.ts";

// Built-in plugins

export { admin } from "./plugins/admin/index.ts";
export { docs } from "./plugins/docs/index.ts";
export { events } from "./plugins/events/plugin.ts";
export { telemetry } from "./plugins/telemetry/plugin.ts";
export { webhooks } from "./plugins/webhooks/plugin.ts";
