// Models and tools of other libraries as steps; none of these libraries is loaded here.

export { durable } from "./ai/durable.ts";
export type { DurableNodeConfig, NodeConfig } from "./ai/graph.ts";
export { durableNode, runGraph } from "./ai/graph.ts";
export type { LanguageModelLike } from "./ai/language-model.ts";
export type { Durable, DurableOptions } from "./ai/options.ts";
export { durableTools } from "./ai/tools.ts";
