import type { Deployment } from "../../deploy/deployment.ts";
import type { Paint } from "../paint.ts";

/** Names and values, one per line; those without a value are omitted. */
export function facts(
  paint: Paint,
  list: readonly (readonly [string, string | undefined | null])[],
): string[] {
  const shown = list.filter(([, value]) => value !== undefined && value !== null && value !== "");
  const width = Math.max(...shown.map(([name]) => name.length)) + 2;
  return shown.map(([name, value]) => `  ${paint("dim", name.padEnd(width))}${value}`);
}

/** The command for the next step, on the same target; what `deploy.yaml` says is not repeated. */
export function nextCommand(command: string, { platform, target, typed }: Deployment): string {
  const words = ["svc deploy", command];
  if (typed.platform !== undefined) words.push("--platform", platform.name);
  if (typed.name !== undefined) words.push("--name", typed.name);
  if (target.environment !== "dev") words.push("--env", target.environment);
  if (typed.region !== undefined) words.push("--region", typed.region);
  if (typed.projectId !== undefined) words.push("--project-id", typed.projectId);
  return words.join(" ");
}
