import { DeployError } from "../../../deploy/errors.ts";
import { unreachable } from "../../../deploy/network.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { isCloudError } from "./cloud-error.ts";

/**
 * A provider's failure, made actionable: no response becomes the host and what to check, a refused login the
 * command that logs in again. Everything else is unchanged.
 */
export function explainFailure(
  tools: Pick<DeployTools, "env">,
  error: unknown,
  place: {
    readonly provider: string;
    readonly url: string;
    readonly login: string;
    isExpired?(code: string): boolean;
  },
): unknown {
  if (!isCloudError(error)) return error;
  if (error.status === 0) return unreachable(tools, place.url, error);
  if (error.status !== 401 && !place.isExpired?.(error.code)) return error;
  return new DeployError("login_expired", `${place.provider} rejected the login: it is expired or invalid`, {
    detail: error.message,
    fix: place.login,
    cause: error,
  });
}
