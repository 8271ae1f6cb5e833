// Services

export type { JobRun, RunOptions, TestRequest, TestServer } from "./test-server.ts";
export { testServer } from "./test-server.ts";

// Crashes

export type { CrashTestOptions, CrashTestReport } from "./testing/crash-test.ts";
export { CrashTestError, crashTest } from "./testing/crash-test.ts";
export type { Answers, EventData } from "./testing/drive-job.ts";

// Models

export type { ModelMessage, ModelServerRequest } from "./testing/model-server/messages.ts";
export type { ModelReply, ModelServer, ModelServerOptions } from "./testing/model-server.ts";
export { modelServer } from "./testing/model-server.ts";

// Stores

export { createMemoryStore } from "./core/store/memory-store.ts";
export type { StoreContractOptions } from "./core/store/store-contract.ts";
export { storeContract } from "./core/store/store-contract.ts";

// Deploy platforms

export type { DeployToolsOptions } from "./deploy/create-tools.ts";
export type { Journal, RecalledStep } from "./deploy/journal.ts";
export type { PlatformContractOptions, PlatformHarness } from "./deploy/platform-contract.ts";
export { platformContract } from "./deploy/platform-contract.ts";
export { createDeployTools } from "./testing/deploy-tools.ts";
