import { DeployError } from "../../../deploy/errors.ts";
import type { DeployTarget } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import type { CloudRunFlags } from "./flags.ts";
import type { Google } from "./google.ts";

/** What every part of a session uses. */
export interface Context {
  readonly target: DeployTarget<CloudRunFlags>;
  readonly tools: DeployTools;
  /** Finds credentials on first use; rejects if there are none. */
  google(): Promise<Google>;
  readonly project: string;
  /** `projects/p/locations/r` */
  readonly location: string;
  /** `projects/p/locations/r/services/s` */
  readonly service: string;
}

/** The project; an error says how to set it. */
export function requireProject(target: DeployTarget<CloudRunFlags>): string {
  if (target.projectId) return target.projectId;
  throw new DeployError("preflight", "No Google Cloud project is configured", {
    fix: "Set one with --project-id, or: gcloud config set project PROJECT",
  });
}
