export { a2a } from "./plugins/a2a/plugin.ts";
