import type { AgentDefinition } from "../agents/define-agent.ts";
import type { PluginInput } from "./plugin.ts";

/** What a service was made with, defaults and variables included, as far as plugins and programs need it. */
export interface ServiceOptions {
  /** Address to listen on. */
  readonly host: string;
  /** Port to listen on, 0 for a free one. */
  readonly port: number;
  /** Folder of the store and the generated keys. */
  readonly dataDir: string;
  /** Path in front of the machine routes. */
  readonly apiPrefix: string;
  /** Public URL of the service, if it is known. */
  readonly publicUrl: string | undefined;
  readonly environment: string;
  /** The agents that the service hosts. */
  readonly agents: readonly AgentDefinition[];
  readonly plugins: PluginInput;
}
