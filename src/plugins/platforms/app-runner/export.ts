import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { cloudFormation, withStoredSecrets } from "../aws/export.ts";
import { serviceTags } from "../aws/service-tags.ts";
import { tagMap } from "../aws/tags.ts";
import { isDomain } from "../cloud/domain.ts";
import { blockOf, HclReference, hcl, requiredProvider } from "../cloud/hcl.ts";
import { wantedConfiguration } from "./configuration.ts";
import type { Context } from "./context.ts";
import { findOwnService, listTags } from "./services.ts";

/** The service that a release leads to, with what the running one keeps. */
async function describeService(context: Context, spec: ReleaseSpec) {
  const live = await findOwnService(context);
  return {
    ServiceName: context.target.serviceName,
    NetworkConfiguration: live?.NetworkConfiguration,
    ...wantedConfiguration(context, await withStoredSecrets(context, spec), live),
    EncryptionConfiguration: live?.EncryptionConfiguration,
    ObservabilityConfiguration: live?.ObservabilityConfiguration,
    AutoScalingConfigurationArn: live?.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn,
    Tags: serviceTags(context.target, live && (await listTags(context, live))),
  };
}

/** As AWS CloudFormation reads it. */
export async function exportCloudFormation(context: Context, spec: ReleaseSpec): Promise<string> {
  const { SourceConfiguration: source, ...found } = await describeService(context, spec);
  const { ImageConfiguration: image, ...repository } = source.ImageRepository ?? {};
  const pairs = (map: Readonly<Record<string, string>> = {}) =>
    Object.entries(map).map(([Name, Value]) => ({ Name, Value }));
  return cloudFormation("AWS::AppRunner::Service", {
    ...found,
    SourceConfiguration: {
      ...source,
      ImageRepository: {
        ...repository,
        ImageConfiguration: {
          Port: image?.Port,
          RuntimeEnvironmentVariables: pairs(image?.RuntimeEnvironmentVariables),
          RuntimeEnvironmentSecrets: pairs(image?.RuntimeEnvironmentSecrets),
        },
      },
    },
  });
}

/** As Terraform's provider for AWS reads it. */
export async function exportTerraform(context: Context, spec: ReleaseSpec): Promise<string> {
  const { Tags, ...found } = await describeService(context, spec);
  const { region, flags } = context.target;
  const described = {
    ...found,
    region,
    Tags: tagMap(Tags),
  };
  return hcl([
    requiredProvider("aws", "hashicorp/aws", ">= 6.0"),
    blockOf('resource "aws_apprunner_service" "service"', described, [
      ...["Tags", "RuntimeEnvironmentVariables", "RuntimeEnvironmentSecrets"],
    ]),
    ...(isDomain(flags.domain)
      ? [
          blockOf('resource "aws_apprunner_custom_domain_association" "domain"', {
            domain_name: flags.domain,
            service_arn: new HclReference("aws_apprunner_service.service.arn"),
            enable_www_subdomain: false,
          }),
        ]
      : []),
  ]);
}
