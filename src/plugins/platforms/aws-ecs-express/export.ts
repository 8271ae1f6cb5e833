import { DeployError } from "../../../deploy/errors.ts";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { capitalized, cloudFormation, withStoredSecrets } from "../aws/export.ts";
import { roleArn } from "../aws/roles.ts";
import { serviceTags } from "../aws/service-tags.ts";
import { hcl, requiredProvider } from "../cloud/hcl.ts";
import { wantedConfiguration, X86 } from "./configuration.ts";
import { type Context, clusterOf, infrastructureRole } from "./context.ts";
import { findOwnService, tagsOf } from "./services.ts";

/** The service that a release leads to, with what the running one keeps. */
async function describeService(context: Context, spec: ReleaseSpec) {
  const { target } = context;
  const live = await findOwnService(context);
  const known = await withStoredSecrets(context, spec);
  const active = live?.activeConfigurations?.[0];
  const { cpuArchitecture, ...wanted } = wantedConfiguration(context, known, active);
  if (cpuArchitecture !== X86)
    throw new DeployError(
      "usage",
      `"${target.serviceName}" has a setting that the export would lose: arm64`,
      {
        fix: "Neither CloudFormation nor Terraform can say the processor of an Express service yet",
      },
    );
  return {
    serviceName: target.serviceName,
    cluster: clusterOf(target.flags),
    infrastructureRoleArn: roleArn(context, infrastructureRole(context).name),
    networkConfiguration: active?.networkConfiguration,
    ...wanted,
    tags: serviceTags(target, live && tagsOf(live)),
  };
}

/** As AWS CloudFormation reads it. */
export async function exportCloudFormation(context: Context, spec: ReleaseSpec): Promise<string> {
  const { tags, ...service } = await describeService(context, spec);
  return cloudFormation("AWS::ECS::ExpressGatewayService", {
    ...(capitalized(service) as object),
    Tags: tags,
  });
}

/** As Terraform's provider for AWS reads it. */
export async function exportTerraform(context: Context, spec: ReleaseSpec): Promise<string> {
  const found = await describeService(context, spec);
  const { primaryContainer: container, scalingTarget: range, networkConfiguration: network } = found;
  const logs = container.awsLogsConfiguration;
  return hcl([
    requiredProvider("aws", "hashicorp/aws", ">= 6.23"),
    {
      type: 'resource "aws_ecs_express_gateway_service" "service"',
      attributes: {
        service_name: found.serviceName,
        cluster: found.cluster,
        region: context.target.region,
        execution_role_arn: found.executionRoleArn,
        infrastructure_role_arn: found.infrastructureRoleArn,
        task_role_arn: found.taskRoleArn,
        health_check_path: found.healthCheckPath,
        cpu: found.cpu,
        memory: found.memory,
        tags: Object.fromEntries(found.tags.map(({ Key, Value }) => [Key, Value])),
      },
      blocks: [
        {
          type: "primary_container",
          attributes: { image: container.image, container_port: container.containerPort },
          blocks: [
            logs && { type: "aws_logs_configuration", attributes: { log_group: logs.logGroup } },
            ...(container.environment ?? []).map(({ name, value }) => ({
              type: "environment",
              attributes: { name, value },
            })),
            ...(container.secrets ?? []).map(({ name, valueFrom }) => ({
              type: "secret",
              attributes: { name, value_from: valueFrom },
            })),
          ],
        },
        range && {
          type: "scaling_target",
          attributes: {
            min_task_count: range.minTaskCount,
            max_task_count: range.maxTaskCount,
            auto_scaling_metric: range.autoScalingMetric,
            auto_scaling_target_value: range.autoScalingTargetValue,
          },
        },
        network && {
          type: "network_configuration",
          attributes: { subnets: network.subnets, security_groups: network.securityGroups },
        },
      ],
    },
  ]);
}
