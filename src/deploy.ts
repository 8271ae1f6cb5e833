// Platforms

export type { ResourceAction } from "./core/models/deployment.ts";
export type { PipelineLogin, PipelineRequest, Repository, TrustedJobs } from "./deploy/ci/pipeline.ts";
export type { SessionDefinition } from "./deploy/define-platform.ts";
export { definePlatform } from "./deploy/define-platform.ts";
export { DeployError, type DeployErrorCode } from "./deploy/errors.ts";
export type {
  BuildContext,
  DeployTarget,
  Estimate,
  Finding,
  LockHolder,
  LockRequest,
  Platform,
  PlatformFlags,
  PlatformSession,
  RegistryAuth,
  Release,
  ReleaseSpec,
  SecretRef,
  SecretValue,
  SetupAction,
  StoredSecret,
} from "./deploy/platform.ts";
export type { DeployTools, ExecResult, JournalStep } from "./deploy/tools.ts";

// Building blocks of sessions

export { type Command, createCommand } from "./deploy/command.ts";
export { createReleases, type ReleaseRecord } from "./deploy/releases.ts";
export { createSecretStore } from "./deploy/secret-store.ts";
export { type FieldChange, specChanges } from "./deploy/spec-changes.ts";
