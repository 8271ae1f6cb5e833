import type { Deployment } from "../../deploy/deployment.ts";
import type { OpenEnvironment } from "../../deploy/environments.ts";
import type { Shell } from "./session.ts";

/** What a command on a deployment gets. */
export interface PlatformRun {
  readonly shell: Shell;
  readonly deployment: Deployment;
  /** The options of the command line. */
  readonly given: Readonly<Record<string, unknown>>;
  readonly args: readonly string[];
  /** Opens another environment in the same place, with the same options; closed by the caller. */
  readonly open: OpenEnvironment;
  /** The first place of the deployment, where this is another one. */
  readonly first?: Deployment | undefined;
}
