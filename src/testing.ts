// Services

export type { JobRun, TestServer } from "./test-server.ts";
export { testServer } from "./test-server.ts";

// Crashes

export type { CrashTestReport } from "./testing/crash-test.ts";
export { crashTest } from "./testing/crash-test.ts";
export type { Answers } from "./testing/drive-job.ts";

// Models

export type { ModelMessage, ModelServerRequest } from "./testing/model-server/messages.ts";
export type { ModelReply, ModelServer } from "./testing/model-server.ts";
export { modelServer } from "./testing/model-server.ts";

// Stores

export { createMemoryStore } from "./core/store/memory-store.ts";
export { storeContract } from "./core/store/store-contract.ts";

// Deploy platforms

export { platformContract } from "./deploy/platform-contract.ts";
export { createDeployTools } from "./testing/deploy-tools.ts";
