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

/** The command for the next step, on the same target. */
export function nextCommand(command: string, { platform, target, options }: Deployment): string {
  const words = ["svc deploy", command, "--platform", platform.name];
  if (options.name !== undefined) words.push("--name", options.name);
  if (target.environment !== "dev") words.push("--env", target.environment);
  if (options.region !== undefined) words.push("--region", options.region);
  if (options.projectId !== undefined) words.push("--project-id", options.projectId);
  return words.join(" ");
}
