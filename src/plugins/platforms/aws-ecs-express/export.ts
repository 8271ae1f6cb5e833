import { DeployError } from "../../../deploy/errors.ts";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { capitalized, cloudFormation, withStoredSecrets } from "../aws/export.ts";
import { roleArn } from "../aws/roles.ts";
import { serviceTags } from "../aws/service-tags.ts";
import { tagMap } from "../aws/tags.ts";
import { blockOf, hcl, requiredProvider } from "../cloud/hcl.ts";
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
  const { primaryContainer, tags, ...found } = await describeService(context, spec);
  const { secrets: secret, ...container } = primaryContainer;
  const described = {
    ...found,
    region: context.target.region,
    tags: tagMap(tags),
    primaryContainer: { ...container, secret },
  };
  return hcl([
    requiredProvider("aws", "hashicorp/aws", ">= 6.23"),
    blockOf('resource "aws_ecs_express_gateway_service" "service"', described, ["tags"]),
  ]);
}
