import type { DeployTarget } from "../../deploy/platform.ts";

/** Marks of a resource that this tool made; only what carries all of them is ever deleted. */
export function ownershipOf(target: Pick<DeployTarget, "name" | "environment">): Record<string, string> {
  return { "managed-by": "svc", "svc-service": target.name, "svc-environment": target.environment };
}

/** Whether a resource carries the marks of this target. */
export function isOwn(
  marks: Readonly<Record<string, string>> | undefined,
  target: Pick<DeployTarget, "name" | "environment">,
): boolean {
  return Object.entries(ownershipOf(target)).every(([key, value]) => marks?.[key] === value);
}
