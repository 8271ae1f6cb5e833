export { type McpTool, type McpToolResult, type McpTools, mcpTools } from "./plugins/mcp/mcp-tools.ts";
export { mcp } from "./plugins/mcp/plugin.ts";
