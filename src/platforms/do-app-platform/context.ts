import type { DeployTarget, SecretValue } from "../../deploy/platform.ts";
import type { DeployTools } from "../../deploy/tools.ts";
import type { DigitalOcean } from "./digitalocean.ts";
import type { AppPlatformFlags } from "./flags.ts";
import type { RegistryChoice } from "./registry.ts";

/** What every part of a session works with. */
export interface Context {
  readonly target: DeployTarget<AppPlatformFlags>;
  readonly tools: DeployTools;
  readonly api: DigitalOcean;
  /** Where the token was found, for people. */
  readonly tokenSource: string;
  readonly registry: RegistryChoice;
  /** Values given in this run: they go out with the next spec, which is the only place App Platform keeps secrets in. */
  readonly given: Map<string, SecretValue>;
}
