import type { DeployTarget, SecretValue } from "../../deploy/platform.ts";
import type { DeployTools } from "../../deploy/tools.ts";
import type { DigitalOcean } from "./digitalocean.ts";
import type { AppPlatformFlags } from "./flags.ts";
import type { RegistryChoice } from "./registry.ts";

/** What every part of a session uses. */
export interface Context {
  readonly target: DeployTarget<AppPlatformFlags>;
  readonly tools: DeployTools;
  readonly api: DigitalOcean;
  /** Where the token was found, as text. */
  readonly tokenSource: string;
  readonly registry: RegistryChoice;
  /**
   * Values set in this run: they are sent with the next spec, the only place where App Platform stores
   * secrets.
   */
  readonly given: Map<string, SecretValue>;
}
