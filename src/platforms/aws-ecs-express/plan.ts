import type { ResourceAction } from "../../core/models/deployment.ts";
import type { Release, ReleaseSpec } from "../../deploy/platform.ts";
import type { FieldChange } from "../../deploy/spec-changes.ts";
import { hasRepository } from "../aws/ecr.ts";
import { planStorage } from "../aws/job-bucket.ts";
import { findRole } from "../aws/roles.ts";
import { listSecrets } from "../aws/secrets.ts";
import { releaseActions, resourceAction } from "../cloud/actions.ts";
import { isSameRange, wantedConfiguration } from "./configuration.ts";
import type { Context } from "./context.ts";
import { executionRole, infrastructureRole, taskRole } from "./context.ts";
import type { Configuration, ScalingTarget } from "./service-types.ts";
import { findOwnService } from "./services.ts";

/** What a release would change, field by field. ECS has no dry run of its own. */
export async function planRelease(
  context: Context,
  spec: ReleaseSpec,
  live?: Release,
): Promise<ResourceAction[]> {
  const service = await findOwnService(context);
  const liveHashes: Record<string, string> = {};
  for (const { name, hash } of await listSecrets(context)) if (hash !== undefined) liveHashes[name] = hash;
  const active = service?.activeConfigurations?.[0];
  const { serviceName } = context.target;
  const roles = [executionRole(context).name, infrastructureRole(context).name];
  return [
    resourceAction("registry", serviceName, await hasRepository(context), "Repository for images in ECR"),
    ...(await Promise.all(
      roles.map(async (name) =>
        resourceAction("role", name, (await findRole(context, name)) !== undefined, "Role for ECS"),
      ),
    )),
    ...(await planStorage(context, taskRole(context), spec, live)),
    ...releaseActions({
      serviceName,
      spec,
      live,
      liveHashes,
      changes: active === undefined ? [] : settingChanges(context, spec, active),
    }),
  ];
}

function settingChanges(context: Context, spec: ReleaseSpec, live: Configuration): FieldChange[] {
  const wanted = wantedConfiguration(context, spec, live);
  const pairs: [string, string | undefined, string | undefined][] = [
    ["port", String(live.primaryContainer?.containerPort), String(spec.port)],
    ["cpu", live.cpu, wanted.cpu],
    ["memory", live.memory, wanted.memory],
    ["task_role", wanted.taskRoleArn && live.taskRoleArn, wanted.taskRoleArn],
    ["health_path", live.healthCheckPath, wanted.healthCheckPath],
  ];
  const changes = pairs
    .filter(([, from, to]) => from !== to)
    .map(([field, from, to]) => ({ field, from: from ?? null, to: to ?? null }));
  if (!isSameRange(live, wanted))
    changes.push({
      field: "instances",
      from: rangeText(live.scalingTarget),
      to: rangeText(wanted.scalingTarget),
    });
  return changes;
}

function rangeText({ minTaskCount, maxTaskCount, autoScalingTargetValue }: ScalingTarget = {}): string {
  const cpu = autoScalingTargetValue === undefined ? "" : `, at ${autoScalingTargetValue} %`;
  return `${minTaskCount}–${maxTaskCount}${cpu}`;
}
