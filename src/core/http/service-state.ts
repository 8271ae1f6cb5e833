import { createRequire } from "node:module";
import type { AgentRegistry } from "../agents/registry.ts";
import type { ServerInfo } from "../models/server-info.ts";

const { version } = createRequire(import.meta.url)("../../../package.json") as { version: string };

/** Version of this package. */
export const VERSION: string = version;

/** How the service was set up. */
interface StateOptions {
  readonly host: string;
  readonly port: number;
  readonly publicUrl: string | undefined;
  readonly environment: string;
  readonly release: string | undefined;
  readonly clock: () => Date;
}

/** The state of a running service outside its store. */
export class ServiceState {
  readonly startedAt: Date;
  readonly #options: StateOptions;
  readonly #agents: AgentRegistry;
  /** Address that it listens on, once it does. */
  url: string | undefined;
  port: number;
  closing = false;

  constructor(options: StateOptions, agents: AgentRegistry) {
    this.#options = options;
    this.#agents = agents;
    this.port = options.port;
    this.startedAt = options.clock();
  }

  /** URL of the service for others: the public URL, else the address that it listens on. */
  get publicUrl(): string | undefined {
    return this.#options.publicUrl ?? this.url;
  }

  /** What `svc deploy` made this instance from, as a mark that two releases have in common only if they are the same. */
  get release(): string | undefined {
    return this.#options.release;
  }

  /** Seconds since the start. */
  uptime(): number {
    return (this.#options.clock().getTime() - this.startedAt.getTime()) / 1000;
  }

  info(): ServerInfo {
    return {
      id: "server_instance",
      host: this.#options.host,
      port: this.port,
      api_version: VERSION,
      environment: this.#options.environment,
      agents: this.#agents.list().map(({ definition, slug, id }) => ({
        name: definition.name,
        slug,
        id,
        version: definition.version,
      })),
      start_time: this.startedAt.getTime() / 1000,
      created_at: this.startedAt.toISOString(),
      updated_at: this.startedAt.toISOString(),
    };
  }
}
