/** The entry `agent-control-service/plugin`, and all parts of a service: tests see more of them than plugins do. */

export { PluginError } from "../src/core/service/plugin.ts";
export * from "../src/core/service/tokens.ts";
export {
  AGENTS,
  CASES,
  CLOCK,
  CONTROL_SYSTEM,
  GATE,
  JOBS,
  KEYS,
  OPTIONS,
  RUNNER,
  STREAMS,
} from "../src/core/service/tokens.ts";
export * from "../src/plugin.ts";
