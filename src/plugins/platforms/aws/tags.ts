import type { DeployTarget } from "../../../deploy/platform.ts";
import { ownershipOf } from "../cloud/ownership.ts";

export interface AwsTag {
  readonly Key?: string;
  readonly Value?: string;
}

export function tagsOf(target: Pick<DeployTarget, "name" | "environment">): { Key: string; Value: string }[] {
  return Object.entries(ownershipOf(target)).map(([Key, Value]) => ({ Key, Value }));
}

export function tagMap(tags: readonly AwsTag[] = []): Record<string, string> {
  return Object.fromEntries(tags.map(({ Key = "", Value = "" }) => [Key, Value]));
}
