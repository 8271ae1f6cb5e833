import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { isDomain } from "../cloud/domain.ts";
import { type HclBlock, HclReference, hcl, requiredProvider } from "../cloud/hcl.ts";
import type { Context } from "./context.ts";
import { describeService } from "./knative.ts";
import type { Container, EnvVar, Probe, ServiceScaling, VpcAccess } from "./service-types.ts";

/** The service that a release leads to, as Terraform's provider for Google Cloud reads it. */
export async function exportTerraform(context: Context, spec: ReleaseSpec): Promise<string> {
  const { target, project } = context;
  const { template, container, access, scaling, ingress, timeout, labels } = await describeService(
    context,
    spec,
  );
  const probes = { ...container } as Container & { readonly livenessProbe?: Probe };
  const { limits, cpuIdle = false, startupCpuBoost } = container.resources ?? {};
  return hcl([
    requiredProvider("google", "hashicorp/google", ">= 6.11"),
    {
      type: 'resource "google_cloud_run_v2_service" "service"',
      attributes: {
        name: target.serviceName,
        project,
        location: target.region,
        ingress,
        invoker_iam_disabled: access === "public",
        deletion_protection: false,
        labels,
      },
      blocks: [
        scalingBlock(scaling),
        {
          type: "template",
          attributes: {
            service_account: template.serviceAccount,
            timeout,
            max_instance_request_concurrency: template.maxInstanceRequestConcurrency,
            labels: template.labels,
            annotations: (template as { annotations?: Readonly<Record<string, string>> }).annotations,
          },
          blocks: [
            vpcBlock(template.vpcAccess),
            scalingBlock((template as { scaling?: ServiceScaling }).scaling),
            {
              type: "containers",
              attributes: { image: container.image },
              blocks: [
                ...(container.ports ?? []).map(({ containerPort }) => ({
                  type: "ports",
                  attributes: { container_port: containerPort },
                })),
                ...(container.env ?? []).map(variable),
                {
                  type: "resources",
                  attributes: { cpu_idle: cpuIdle, startup_cpu_boost: startupCpuBoost, limits },
                },
                probe("startup_probe", probes.startupProbe),
                probe("liveness_probe", probes.livenessProbe),
              ],
            },
          ],
        },
        {
          type: "traffic",
          attributes: { type: "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", percent: 100 },
        },
      ],
    },
    ...(isDomain(target.flags.domain) ? [mapping(context, target.flags.domain)] : []),
  ]);
}

function mapping({ target, project }: Context, name: string): HclBlock {
  return {
    type: 'resource "google_cloud_run_domain_mapping" "domain"',
    attributes: { name, location: target.region },
    blocks: [
      { type: "metadata", attributes: { namespace: project } },
      {
        type: "spec",
        attributes: { route_name: new HclReference("google_cloud_run_v2_service.service.name") },
      },
    ],
  };
}

function scalingBlock({ minInstanceCount, maxInstanceCount }: ServiceScaling = {}): HclBlock | undefined {
  if (minInstanceCount === undefined && maxInstanceCount === undefined) return undefined;
  return {
    type: "scaling",
    attributes: { min_instance_count: minInstanceCount, max_instance_count: maxInstanceCount },
  };
}

function vpcBlock(access: VpcAccess | undefined): HclBlock | undefined {
  if (access === undefined) return undefined;
  return {
    type: "vpc_access",
    attributes: { connector: access.connector, egress: access.egress },
    blocks: (access.networkInterfaces ?? []).map(({ network, subnetwork, tags }) => ({
      type: "network_interfaces",
      attributes: { network, subnetwork, tags },
    })),
  };
}

function variable({ name, value = "", valueSource }: EnvVar): HclBlock {
  const ref = valueSource?.secretKeyRef;
  if (ref === undefined) return { type: "env", attributes: { name, value } };
  const reference = {
    type: "secret_key_ref",
    attributes: { secret: ref.secret, version: ref.version ?? "latest" },
  };
  return { type: "env", attributes: { name }, blocks: [{ type: "value_source", blocks: [reference] }] };
}

function probe(type: string, found: Probe | undefined): HclBlock | undefined {
  if (found === undefined) return undefined;
  const { httpGet, periodSeconds, timeoutSeconds, failureThreshold } = found;
  return {
    type,
    attributes: {
      period_seconds: periodSeconds,
      timeout_seconds: timeoutSeconds,
      failure_threshold: failureThreshold,
    },
    blocks: [httpGet && { type: "http_get", attributes: { path: httpGet.path, port: httpGet.port } }],
  };
}
