export { type McpOptions, mcp } from "./plugins/mcp/plugin.ts";
