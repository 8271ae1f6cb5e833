import type { DeployTarget } from "../../../deploy/platform.ts";
import { isOwn } from "./ownership.ts";

/** The environment of a service with these marks, if svc created it under this base name. */
export function environmentOf(
  marks: Readonly<Record<string, string>> | undefined,
  { name }: Pick<DeployTarget, "name">,
): string | undefined {
  const environment = marks?.["svc-environment"];
  return environment !== undefined && isOwn(marks, { name, environment }) ? environment : undefined;
}
