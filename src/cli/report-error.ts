import { describeError } from "../core/base/error-text.ts";
import { isServiceError } from "../core/base/errors.ts";
import { isDeployError } from "../deploy/errors.ts";
import type { CliContext } from "./context.ts";
import { CliError, UsageError } from "./errors.ts";
import { PLAIN } from "./paint.ts";

/** Checked by name because the project may use another copy of this package. */
const SELF_EXPLAINING = ["OptionsError", "PluginError", "AgentError"];

/** Reports what went wrong and what to do, and returns the exit code. Only unexpected errors show a stack. */
export function reportError(error: unknown, program: string, context: CliContext): number {
  if (context.argv.includes("--json") && !program.endsWith(" deploy")) context.print(toJson(error));
  if (error instanceof UsageError) {
    const paint = context.paint?.note ?? PLAIN;
    const { message, hint, command } = error;
    context.note(`${paint("red", `${program}:`)} ${message}.${hint ? ` ${hint}` : ""}`);
    // With a hint, the reader needs no list of what else there is.
    if (!hint)
      context.note(
        `Run "${command ?? program} --help" for a list of ${command ? "" : "commands and "}options.`,
      );
    return 2;
  }
  if (error instanceof CliError) {
    tell(context, error.message, error.detail);
    return error.exitCode;
  }
  if (isServiceError(error)) {
    tell(context, error.message, error.detail);
    return 1;
  }
  if (isDeployError(error)) {
    tell(context, error.message, [error.detail, error.outcome, error.fix].filter(Boolean).join("\n"));
    return error.exitCode;
  }
  if (error instanceof Error && SELF_EXPLAINING.includes(error.name)) {
    tell(context, error.message);
    return 1;
  }
  tell(context, "Unexpected error", describeError(error));
  return 1;
}

function tell(context: CliContext, message: string, detail?: string): void {
  const paint = context.paint?.note ?? PLAIN;
  context.note(`${paint("red", "Error:")} ${message}`);
  if (detail) context.note(`  ${detail.replaceAll("\n", "\n  ")}`);
}

/** The failure as the one document that `--json` promises. */
function toJson(error: unknown): string {
  const { message, detail, hint } = error as { message?: string; detail?: string; hint?: string };
  return JSON.stringify({ error: message ?? String(error), detail: detail ?? hint ?? null }, null, 2);
}
