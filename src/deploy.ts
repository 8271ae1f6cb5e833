// Platforms

export type { ResourceAction } from "./core/models/deployment.ts";
export type {
  PipelineLogin,
  PipelineProvider,
  PipelineRequest,
  PipelineRight,
  Repository,
  TrustedJobs,
} from "./deploy/ci/pipeline.ts";
export type { PlatformDefinition, SessionDefinition, WithDefault } from "./deploy/define-platform.ts";
export { definePlatform } from "./deploy/define-platform.ts";
export { DeployError, type DeployErrorCode, type DeployErrorOptions } from "./deploy/errors.ts";
export type * from "./deploy/platform.ts";
export type * from "./deploy/tools.ts";

// Building blocks of sessions

export { type Command, createCommand, type Word } from "./deploy/command.ts";
export { createReleases, type ReleaseBackend, type ReleaseRecord } from "./deploy/releases.ts";
export { createSecretStore, type ValueStore } from "./deploy/secret-store.ts";
export { type FieldChange, specChanges } from "./deploy/spec-changes.ts";
