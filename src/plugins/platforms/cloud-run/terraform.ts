import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { isDomain } from "../cloud/domain.ts";
import { blockOf, type HclBlock, HclReference, hcl, requiredProvider } from "../cloud/hcl.ts";
import type { Context } from "./context.ts";
import { describeService } from "./knative.ts";
import type { Container, EnvVar, Probe, ServiceScaling, Template } from "./service-types.ts";

const MAPS = ["labels", "annotations", "limits"];

/** The service that a release leads to, as Terraform's provider for Google Cloud reads it. */
export async function exportTerraform(context: Context, spec: ReleaseSpec): Promise<string> {
  const { target, project } = context;
  const found = await describeService(context, spec);
  const { revision: _, containers: __, ...template } = found.template as Template & Described;
  const { image, ports = [], env = [], resources, ...container } = found.container as Container & Described;
  const described = {
    name: target.serviceName,
    project,
    location: target.region,
    ingress: found.ingress,
    invokerIamDisabled: found.access === "public",
    deletionProtection: false,
    labels: found.labels,
    scaling: limitsOf(found.scaling),
    template: {
      ...template,
      scaling: limitsOf(template.scaling),
      containers: {
        image,
        ports: ports.map(({ containerPort }) => ({ containerPort })),
        env: env.map(toVariable),
        resources: { cpuIdle: false, ...resources },
        startupProbe: container.startupProbe,
        livenessProbe: container.livenessProbe,
      },
    },
    traffic: { type: "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST", percent: 100 },
  };
  return hcl([
    requiredProvider("google", "hashicorp/google", ">= 6.11"),
    blockOf('resource "google_cloud_run_v2_service" "service"', described, MAPS),
    ...(isDomain(target.flags.domain) ? [mapping(context, target.flags.domain)] : []),
  ]);
}

/** What a template or a container has besides what is written here. */
interface Described {
  readonly scaling?: ServiceScaling;
  readonly livenessProbe?: Probe;
}

function mapping({ target, project }: Context, name: string): HclBlock {
  return blockOf('resource "google_cloud_run_domain_mapping" "domain"', {
    ...{ name, location: target.region, metadata: { namespace: project } },
    spec: { route_name: new HclReference("google_cloud_run_v2_service.service.name") },
  });
}

function limitsOf({ minInstanceCount, maxInstanceCount }: ServiceScaling = {}): object | undefined {
  if (minInstanceCount === undefined && maxInstanceCount === undefined) return undefined;
  return { minInstanceCount, maxInstanceCount };
}

function toVariable({ name, value = "", valueSource }: EnvVar): object {
  const ref = valueSource?.secretKeyRef;
  if (ref === undefined) return { name, value };
  return { name, valueSource: { secretKeyRef: { secret: ref.secret, version: ref.version ?? "latest" } } };
}
