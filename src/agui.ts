export { type AgUiOptions, agUi } from "./plugins/agui/plugin.ts";
