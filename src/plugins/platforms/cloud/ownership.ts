import type { DeployTarget } from "../../../deploy/platform.ts";

/** Labels of a resource that svc created; only resources with all of them are ever deleted. */
export function ownershipOf(target: Pick<DeployTarget, "name" | "environment">): Record<string, string> {
  return { "managed-by": "svc", "svc-service": target.name, "svc-environment": target.environment };
}

/** Whether a resource has the labels of this target. */
export function isOwn(
  marks: Readonly<Record<string, string>> | undefined,
  target: Pick<DeployTarget, "name" | "environment">,
): boolean {
  return Object.entries(ownershipOf(target)).every(([key, value]) => marks?.[key] === value);
}
