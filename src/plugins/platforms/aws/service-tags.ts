import { labelChanges, wantedLabels } from "../../../deploy/labels.ts";
import type { DeployTarget } from "../../../deploy/platform.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import type { AwsContext } from "./aws-context.ts";
import type { Runner } from "./policy.ts";
import { type AwsTag, tagMap } from "./tags.ts";

/** Rule of AWS for a tag: the stricter of its services. */
export function checkTag(name: string, value: string): string | undefined {
  const allowed = /^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$/u;
  if (name === "" || name.length > 128) return "names on AWS have 1 to 128 characters";
  if (value.length > 256) return "values on AWS have at most 256 characters";
  if (/^aws:/i.test(name)) return 'names that begin with "aws:" are reserved';
  return allowed.test(name) && allowed.test(value)
    ? undefined
    : "AWS takes letters, numbers, spaces and _.:/=+-@ only";
}

/** Tags of a service after a release, from those that it has. Earlier releases in its tags are not among them. */
export function serviceTags(target: DeployTarget<unknown>, live: readonly AwsTag[] = []) {
  const kept = live.filter(({ Key = "" }) => !Key.startsWith("svc-release-") && !Key.startsWith("aws:"));
  const wanted = { ...wantedLabels(target, tagMap(kept)), ...ownershipOf(target) };
  return Object.entries(wanted).map(([Key, Value]) => ({ Key, Value }));
}

/** Gives a running service the labels of deploy.yaml; those that are not named there stay. */
export async function ensureLabels(
  { aws, target, tools }: AwsContext,
  runner: Runner,
  arn: string,
  live: readonly AwsTag[],
): Promise<void> {
  const changes = labelChanges(target, tagMap(live));
  if (changes.length === 0) return;
  const gone = changes.filter(({ to }) => to === null).map(({ field }) => nameOf(field));
  const set = changes.flatMap(({ field, to }) => (to === null ? [] : { name: nameOf(field), value: to }));
  const input = (tags: object) =>
    runner === "ecs" ? { resourceArn: arn, ...tags } : { ResourceArn: arn, ...tags };
  await tools.journal({ step: "service.label" }, async () => {
    const again = { idempotent: true };
    if (gone.length > 0)
      await aws.send(
        runner,
        "UntagResource",
        input(runner === "ecs" ? { tagKeys: gone } : { TagKeys: gone }),
        again,
      );
    if (set.length > 0)
      await aws.send(
        runner,
        "TagResource",
        input(
          runner === "ecs"
            ? { tags: set.map(({ name, value }) => ({ key: name, value })) }
            : { Tags: set.map(({ name, value }) => ({ Key: name, Value: value })) },
        ),
        again,
      );
  });
}

function nameOf(field: string): string {
  return field.slice("label.".length);
}
