import type { ResourceAction } from "../../../core/models/deployment.ts";
import { labelChanges } from "../../../deploy/labels.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { changesOf, type FieldChange } from "../../../deploy/spec-changes.ts";
import { planOnAws } from "../aws/plan.ts";
import { roleArn } from "../aws/roles.ts";
import { tagMap } from "../aws/tags.ts";
import {
  bucketRole,
  isSameNetwork,
  isSameRange,
  wantedConfiguration,
  wantedExecutionRole,
  X86,
} from "./configuration.ts";
import { type Context, executionRole, infrastructureRole } from "./context.ts";
import type { Configuration, Network, ScalingTarget } from "./service-types.ts";
import { findOwnService, tagsOf } from "./services.ts";

/** What a release would change, field by field. ECS has no dry run of its own. */
export async function planRelease(
  context: Context,
  spec: ReleaseSpec,
  live?: Release,
): Promise<ResourceAction[]> {
  const service = await findOwnService(context);
  const active = service?.activeConfigurations?.[0];
  const execution = executionRole(context);
  const own = wantedExecutionRole(context, active) === roleArn(context, execution.name);
  return planOnAws(context, {
    roles: [...(own ? [execution] : []), infrastructureRole(context)],
    bucketRole: bucketRole(context, spec, active),
    spec,
    live,
    changes: [
      ...(active === undefined ? [] : settingChanges(context, spec, active)),
      ...(service === undefined ? [] : labelChanges(context.target, tagMap(tagsOf(service)))),
    ],
  });
}

function settingChanges(context: Context, spec: ReleaseSpec, live: Configuration): FieldChange[] {
  const wanted = wantedConfiguration(context, spec, live);
  const changes = changesOf([
    ["port", String(live.primaryContainer?.containerPort), String(spec.port)],
    ["cpu", live.cpu, wanted.cpu],
    ["memory", live.memory, wanted.memory],
    ["task_role", live.taskRoleArn, wanted.taskRoleArn],
    ["execution_role", live.executionRoleArn, wanted.executionRoleArn],
    ["architecture", live.cpuArchitecture ?? X86, wanted.cpuArchitecture],
    ["health_path", live.healthCheckPath, wanted.healthCheckPath],
  ]);
  if (!isSameNetwork(live.networkConfiguration, wanted.networkConfiguration))
    changes.push({
      field: "network",
      from: networkText(live.networkConfiguration),
      to: networkText(wanted.networkConfiguration),
    });
  if (!isSameRange(live, wanted))
    changes.push({
      field: "instances",
      from: rangeText(live.scalingTarget),
      to: rangeText(wanted.scalingTarget),
    });
  return changes;
}

function networkText({ subnets = [], securityGroups = [] }: Network = {}): string {
  return [...subnets, ...securityGroups].join(", ");
}

function rangeText({ minTaskCount, maxTaskCount, autoScalingTargetValue }: ScalingTarget = {}): string {
  const cpu = autoScalingTargetValue === undefined ? "" : `, at ${autoScalingTargetValue} %`;
  return `${minTaskCount}–${maxTaskCount}${cpu}`;
}
