import type { DeployError } from "../../../deploy/errors.ts";
import type { DeployTarget, SecretValue } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import type { DigitalOcean } from "./digitalocean.ts";
import type { AppPlatformFlags } from "./flags.ts";

/** The registry of an account: the existing one, the requested one, or the one to create. */
export interface RegistryChoice {
  readonly name: string;
  readonly exists: boolean;
  /** Why none could be chosen. */
  readonly problem?: DeployError;
}

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
  /** The deployment that the plan of this run is based on: its id, empty where nothing served, undefined without a plan. */
  readonly base: { deployment?: string };
}
