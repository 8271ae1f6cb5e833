// Models and tools of other libraries as steps; none of these libraries is loaded here.

export type { AgentsModelLike } from "./ai/agents-model.ts";
export { type DurableModel, durable } from "./ai/durable.ts";
export type {
  DurableNodeConfig,
  DurableNodeOptions,
  GraphLike,
  InterruptQuestion,
  NodeConfig,
  RunGraphOptions,
} from "./ai/graph.ts";
export { durableNode, runGraph } from "./ai/graph.ts";
export type { LanguageModelLike } from "./ai/language-model.ts";
export type { Durable, DurableOptions } from "./ai/options.ts";
export type {
  Approval,
  DurableToolOptions,
  FunctionToolName,
  NoUnknownOptions,
  ToolName,
  ToolWithOptions,
  UnknownFunctionOption,
  UnknownToolName,
  UnknownToolOption,
  UnlistedToolName,
} from "./ai/tool-options.ts";
export { durableTools } from "./ai/tools.ts";
