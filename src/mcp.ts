export {
  type McpTool,
  type McpToolResult,
  type McpTools,
  type McpToolsOptions,
  mcpTools,
  type StepScope,
} from "./plugins/mcp/mcp-tools.ts";
export { type McpOptions, mcp } from "./plugins/mcp/plugin.ts";
