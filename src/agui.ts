export { agUi } from "./plugins/agui/plugin.ts";
