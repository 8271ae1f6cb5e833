export { type A2aOptions, a2a } from "./plugins/a2a/plugin.ts";
