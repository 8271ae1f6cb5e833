import type { ResourceAction } from "../../../core/models/deployment.ts";
import { labelChanges } from "../../../deploy/labels.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { changesOf, type FieldChange } from "../../../deploy/spec-changes.ts";
import { planOnAws } from "../aws/plan.ts";
import { tagMap } from "../aws/tags.ts";
import { domainChanges } from "../cloud/domain.ts";
import {
  bucketRole,
  egressOf,
  liveVersions,
  ownRoles,
  toUnits,
  wantedConfiguration,
  wantedVersions,
} from "./configuration.ts";
import type { Context } from "./context.ts";
import { domainsOf } from "./domains.ts";
import { hasWantedScaling, rangeText, wantedRange } from "./scaling.ts";
import type { Service } from "./service-types.ts";
import { findOwnService, listTags } from "./services.ts";

/** What a release would change, field by field. App Runner has no dry run of its own. */
export async function planRelease(
  context: Context,
  spec: ReleaseSpec,
  live?: Release,
): Promise<ResourceAction[]> {
  const service = await findOwnService(context);
  const changes = service === undefined ? [] : settingChanges(context, spec, service);
  if (service !== undefined && context.target.labels !== undefined)
    changes.push(...labelChanges(context.target, tagMap(await listTags(context, service))));
  if (service !== undefined)
    changes.push(...(await domainChanges(context.target.flags.domain, domainsOf(context))));
  const roles = ownRoles(context, spec, service);
  return planOnAws(context, { roles, bucketRole: bucketRole(context, spec, service), spec, live, changes });
}

function settingChanges(context: Context, spec: ReleaseSpec, live: Service): FieldChange[] {
  const wanted = wantedConfiguration(context, spec, live);
  const source = live.SourceConfiguration;
  const scaling = live.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn;
  const range = wantedRange(context, scaling);
  const changes = changesOf([
    ["port", source?.ImageRepository?.ImageConfiguration?.Port, String(spec.port)],
    ["cpu", toUnits(live.InstanceConfiguration?.Cpu), wanted.InstanceConfiguration.Cpu],
    ["memory", toUnits(live.InstanceConfiguration?.Memory), wanted.InstanceConfiguration.Memory],
    [
      "instance_role",
      live.InstanceConfiguration?.InstanceRoleArn,
      wanted.InstanceConfiguration.InstanceRoleArn,
    ],
    [
      "vpc_connector",
      egressOf(live.NetworkConfiguration),
      egressOf(wanted.NetworkConfiguration ?? live.NetworkConfiguration),
    ],
    ["health_path", live.HealthCheckConfiguration?.Path, spec.healthPath],
    ["secret_versions", liveVersions(live), wantedVersions(spec) ?? liveVersions(live)],
    ["auto_deployments", String(source?.AutoDeploymentsEnabled), "false"],
    ["paused", String(live.Status === "PAUSED"), "false"],
  ]);
  if (range !== undefined && !hasWantedScaling(context, scaling))
    changes.push({ field: "instances", from: scaling ?? null, to: rangeText(range) });
  return changes;
}
