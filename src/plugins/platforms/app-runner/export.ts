import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { cloudFormation, withStoredSecrets } from "../aws/export.ts";
import { serviceTags } from "../aws/service-tags.ts";
import { isDomain } from "../cloud/domain.ts";
import { type HclBlock, HclReference, hcl, requiredProvider } from "../cloud/hcl.ts";
import { wantedConfiguration } from "./configuration.ts";
import type { Context } from "./context.ts";
import type { NetworkConfiguration } from "./service-types.ts";
import { findOwnService, listTags } from "./services.ts";

/** The service that a release leads to, with what the running one keeps. */
async function describeService(context: Context, spec: ReleaseSpec) {
  const live = await findOwnService(context);
  const wanted = wantedConfiguration(context, await withStoredSecrets(context, spec), live);
  const { ImageRepository: repository = {}, AuthenticationConfiguration: login } = wanted.SourceConfiguration;
  return {
    NetworkConfiguration: live?.NetworkConfiguration,
    ...wanted,
    encryption: live?.EncryptionConfiguration,
    observability: live?.ObservabilityConfiguration,
    repository,
    image: repository.ImageConfiguration ?? {},
    accessRole: login?.AccessRoleArn,
    scaling: live?.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn,
    tags: serviceTags(context.target, live && (await listTags(context, live))),
  };
}

/** As AWS CloudFormation reads it. */
export async function exportCloudFormation(context: Context, spec: ReleaseSpec): Promise<string> {
  const found = await describeService(context, spec);
  const pairs = (map: Readonly<Record<string, string>> = {}) =>
    Object.entries(map).map(([Name, Value]) => ({ Name, Value }));
  return cloudFormation("AWS::AppRunner::Service", {
    ServiceName: context.target.serviceName,
    SourceConfiguration: {
      ImageRepository: {
        ImageIdentifier: found.repository.ImageIdentifier,
        ImageRepositoryType: found.repository.ImageRepositoryType,
        ImageConfiguration: {
          Port: found.image.Port,
          RuntimeEnvironmentVariables: pairs(found.image.RuntimeEnvironmentVariables),
          RuntimeEnvironmentSecrets: pairs(found.image.RuntimeEnvironmentSecrets),
        },
      },
      AuthenticationConfiguration: { AccessRoleArn: found.accessRole },
      AutoDeploymentsEnabled: false,
    },
    InstanceConfiguration: found.InstanceConfiguration,
    HealthCheckConfiguration: found.HealthCheckConfiguration,
    ...(found.NetworkConfiguration && { NetworkConfiguration: found.NetworkConfiguration }),
    ...(found.encryption && { EncryptionConfiguration: found.encryption }),
    ...(found.observability && { ObservabilityConfiguration: found.observability }),
    ...(found.scaling === undefined ? {} : { AutoScalingConfigurationArn: found.scaling }),
    Tags: found.tags,
  });
}

/** As Terraform's provider for AWS reads it. */
export async function exportTerraform(context: Context, spec: ReleaseSpec): Promise<string> {
  const found = await describeService(context, spec);
  const { InstanceConfiguration: instance, HealthCheckConfiguration: health, image } = found;
  const { domain } = context.target.flags;
  return hcl([
    requiredProvider("aws", "hashicorp/aws", ">= 6.0"),
    {
      type: 'resource "aws_apprunner_service" "service"',
      attributes: {
        service_name: context.target.serviceName,
        region: context.target.region,
        auto_scaling_configuration_arn: found.scaling,
        tags: Object.fromEntries(found.tags.map(({ Key, Value }) => [Key, Value])),
      },
      blocks: [
        {
          type: "source_configuration",
          attributes: { auto_deployments_enabled: false },
          blocks: [
            { type: "authentication_configuration", attributes: { access_role_arn: found.accessRole } },
            {
              type: "image_repository",
              attributes: {
                image_identifier: found.repository.ImageIdentifier,
                image_repository_type: found.repository.ImageRepositoryType,
              },
              blocks: [
                {
                  type: "image_configuration",
                  attributes: {
                    port: image.Port,
                    runtime_environment_variables: image.RuntimeEnvironmentVariables,
                    runtime_environment_secrets: image.RuntimeEnvironmentSecrets,
                  },
                },
              ],
            },
          ],
        },
        {
          type: "instance_configuration",
          attributes: {
            cpu: instance.Cpu,
            memory: instance.Memory,
            instance_role_arn: instance.InstanceRoleArn,
          },
        },
        {
          type: "health_check_configuration",
          attributes: {
            protocol: health.Protocol,
            path: health.Path,
            interval: health.Interval,
            timeout: health.Timeout,
            healthy_threshold: health.HealthyThreshold,
            unhealthy_threshold: health.UnhealthyThreshold,
          },
        },
        network(found.NetworkConfiguration),
        found.encryption && {
          type: "encryption_configuration",
          attributes: { kms_key: found.encryption.KmsKey },
        },
        found.observability && {
          type: "observability_configuration",
          attributes: {
            observability_enabled: found.observability.ObservabilityEnabled,
            observability_configuration_arn: found.observability.ObservabilityConfigurationArn,
          },
        },
      ],
    },
    ...(isDomain(domain)
      ? [
          {
            type: 'resource "aws_apprunner_custom_domain_association" "domain"',
            attributes: {
              domain_name: domain,
              service_arn: new HclReference("aws_apprunner_service.service.arn"),
              enable_www_subdomain: false,
            },
          },
        ]
      : []),
  ]);
}

function network(found: NetworkConfiguration | undefined): HclBlock | undefined {
  if (found === undefined) return undefined;
  const { EgressConfiguration: egress, IngressConfiguration: ingress, IpAddressType: addresses } = found;
  return {
    type: "network_configuration",
    attributes: { ip_address_type: addresses },
    blocks: [
      egress && {
        type: "egress_configuration",
        attributes: { egress_type: egress.EgressType, vpc_connector_arn: egress.VpcConnectorArn },
      },
      ingress && {
        type: "ingress_configuration",
        attributes: { is_publicly_accessible: ingress.IsPubliclyAccessible },
      },
    ],
  };
}
