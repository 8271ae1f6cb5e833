import { createDeployTools as createTools, type DeployToolsOptions } from "../deploy/create-tools.ts";
import type { DeployTools } from "../deploy/tools.ts";

/** The tools of a deployment, using this machine's processes, network and clock. */
export function createDeployTools({ env = process.env, ...options }: DeployToolsOptions): DeployTools {
  return createTools({ ...options, env });
}
