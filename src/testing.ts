// Deploy platforms
export type { DeployToolsOptions } from "./core/deploy/create-tools.ts";
export { createDeployTools } from "./core/deploy/create-tools.ts";
export type { PlatformContractOptions, PlatformHarness } from "./core/deploy/platform-contract.ts";
export { platformContract } from "./core/deploy/platform-contract.ts";
export { specChanges } from "./core/deploy/spec-changes.ts";
// Stores
export { createMemoryStore } from "./core/store/memory-store.ts";
export type { StoreContractOptions } from "./core/store/store-contract.ts";
export { storeContract } from "./core/store/store-contract.ts";
// Services
export type { TestRequest, TestServer } from "./test-server.ts";
export { testServer } from "./test-server.ts";
