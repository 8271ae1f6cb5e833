import type { DeploymentResult } from "../../core/models/deployment.ts";
import type { DeployError } from "../../deploy/errors.ts";
import type { CliContext } from "../context.ts";
import { PLAIN } from "../paint.ts";

/**
 * Reports a failure: what failed, the last log lines, the provider's message, the current state, what to do.
 */
export function tellFailure(context: CliContext, error: DeployError, logPath: string | undefined): void {
  const paint = context.paint?.note ?? PLAIN;
  const { note } = context;
  note("");
  for (const line of error.log) note(`  ${paint("dim", "│")} ${line}`);
  if (error.log.length > 0) note("");
  note(`${paint("red", "Error:")} ${error.message}`);
  if (error.detail) note(`  ${error.detail.replaceAll("\n", "\n  ")}`);
  if (error.outcome) note(`  ${paint("bold", "Now:")} ${error.outcome}`);
  if (error.fix) note(`  ${paint("bold", "Next:")} ${error.fix}`);
  if (logPath !== undefined) note(`  ${paint("dim", `Log: ${logPath}`)}`);
}

/** A failure as a result document. */
export function failureResult(error: DeployError): DeploymentResult {
  return {
    success: false,
    service_url: null,
    service_id: null,
    revision: null,
    image_digest: null,
    status: error.code,
    health_status: error.code === "unhealthy" || error.code === "rolled_back" ? "unhealthy" : "unknown",
    deployment_time: null,
    error_message: error.message,
    error_details: {
      code: error.code,
      exit_code: error.exitCode,
      provider: error.detail ?? null,
      outcome: error.outcome ?? null,
      next: error.fix ?? null,
      log: error.log,
      ...error.facts,
    },
  };
}
