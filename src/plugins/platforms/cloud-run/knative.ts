import { stringify } from "yaml";
import { DeployError } from "../../../deploy/errors.ts";
import { wantedLabels } from "../../../deploy/labels.ts";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import { isPublic, wantedAccess } from "./access.ts";
import type { Context } from "./context.ts";
import { INGRESS, isReachable } from "./network.ts";
import { newServiceBody } from "./release.ts";
import { listSecrets } from "./secrets.ts";
import type { Container, Service, ServiceScaling, Template, VpcAccess } from "./service-types.ts";
import { newScaling, wantedScaling, wantedTemplate } from "./template.ts";

/** Settings that the export has; a service with others would lose them. */
const KNOWN = {
  template: [
    ...["labels", "annotations", "revision", "serviceAccount", "maxInstanceRequestConcurrency", "containers"],
    ...["scaling", "timeout", "vpcAccess"],
  ],
  container: ["name", "image", "env", "ports", "resources", "startupProbe", "livenessProbe"],
};
/** Settings of the service itself that it does not have. */
const FOREIGN = ["binaryAuthorization", "customAudiences", "defaultUriDisabled", "iapEnabled", "buildConfig"];

/** What a release leads to, with what the running service keeps. Rejects settings that an export would lose. */
export async function describeService(context: Context, spec: ReleaseSpec) {
  const { target, project } = context;
  const { flags, serviceName } = target;
  const google = await context.google();
  const live = await google.find<Service>("run", `/v2/${context.service}`);
  const stored = await listSecrets(context);
  // The newest version of a secret that the next deployment stores.
  const latest = (name: string) => ({
    name,
    ref: `projects/${project}/secrets/${serviceName}-${name}/versions/latest`,
  });
  const known = Object.fromEntries(
    Object.entries(spec.secrets).map(([name, ref]) => [
      name,
      ref ?? stored.find((one) => one.name === name) ?? latest(name),
    ]),
  );
  const wanted = { ...spec, secrets: known };
  const template = live
    ? wantedTemplate(wanted, flags, live.template)
    : (newServiceBody(context, wanted).template ?? {});
  const scaling = live ? wantedScaling(flags, live.scaling) : newScaling(flags);
  refuseUnknown(serviceName, template, live);
  const [container = {}] = template.containers ?? [];
  const access = wantedAccess(flags) ?? (live && !(await isPublic(context, live)) ? "private" : "public");
  const limitsOf = { ...live?.scaling, ...scaling };
  const ingress = flags.ingress === undefined ? live?.ingress : INGRESS[flags.ingress];
  const { timeout } = template;
  const labels = { ...wantedLabels(target, live?.labels), ...ownershipOf(target) };
  return { live, template, container, access, scaling: limitsOf, ingress, timeout, labels };
}

/** The service that a release leads to, as `gcloud run services replace` reads it. */
export async function exportKnative(context: Context, spec: ReleaseSpec): Promise<string> {
  const { target, project } = context;
  const found = await describeService(context, spec);
  const { live, template, container, access, scaling: limitsOf, labels } = found;
  const { cpuIdle, startupCpuBoost, limits } = container.resources ?? {};
  const ingress = Object.entries(INGRESS).find(([, value]) => value === found.ingress)?.[0];
  const seconds = /^(\d+)s$/.exec(found.timeout ?? "")?.[1];
  const lost = [
    ...(isReachable(found.ingress) || ingress !== undefined ? [] : [`ingress ${found.ingress}`]),
    ...(found.timeout === undefined || seconds !== undefined ? [] : [`timeout ${found.timeout}`]),
  ];
  if (lost.length > 0) throw wouldLose(target.serviceName, lost);
  return stringify({
    apiVersion: "serving.knative.dev/v1",
    kind: "Service",
    metadata: {
      name: target.serviceName,
      namespace: project,
      labels: { ...labels, "cloud.googleapis.com/location": target.region },
      annotations: {
        ...(read(live).annotations as Readonly<Record<string, string>> | undefined),
        ...scale("run.googleapis.com", limitsOf),
        ...(ingress === undefined ? {} : { "run.googleapis.com/ingress": ingress }),
        ...(access === "public" ? { "run.googleapis.com/invoker-iam-disabled": "true" } : {}),
      },
    },
    spec: {
      template: {
        metadata: {
          labels: template.labels ?? {},
          annotations: {
            ...(read(template).annotations as Readonly<Record<string, string>> | undefined),
            ...scale("autoscaling.knative.dev", read(template).scaling as ServiceScaling | undefined),
            ...vpcAnnotations(template.vpcAccess),
            "run.googleapis.com/cpu-throttling": String(cpuIdle === true),
            ...(startupCpuBoost === true ? { "run.googleapis.com/startup-cpu-boost": "true" } : {}),
          },
        },
        spec: {
          ...(template.maxInstanceRequestConcurrency === undefined
            ? {}
            : { containerConcurrency: template.maxInstanceRequestConcurrency }),
          ...(template.serviceAccount === undefined ? {} : { serviceAccountName: template.serviceAccount }),
          ...(seconds === undefined ? {} : { timeoutSeconds: Number(seconds) }),
          containers: [
            {
              image: container.image,
              ports: container.ports?.map(({ containerPort }) => ({ containerPort })),
              env: (container.env ?? []).map(toVariable),
              resources: { limits },
              startupProbe: container.startupProbe,
              ...("livenessProbe" in container ? { livenessProbe: container.livenessProbe } : {}),
            },
          ],
        },
      },
      traffic: [{ latestRevision: true, percent: 100 }],
    },
  });
}

/** What was set elsewhere too. */
function read(resource: Service | Template | undefined): Readonly<Record<string, unknown>> {
  return { ...resource };
}

function scale(prefix: string, { minInstanceCount: least, maxInstanceCount: most }: ServiceScaling = {}) {
  return {
    ...(least === undefined ? {} : { [`${prefix}/minScale`]: String(least) }),
    ...(most === undefined ? {} : { [`${prefix}/maxScale`]: String(most) }),
  };
}

function vpcAnnotations({ connector, egress, networkInterfaces }: VpcAccess = {}) {
  const prefix = "run.googleapis.com";
  return {
    ...(connector === undefined ? {} : { [`${prefix}/vpc-access-connector`]: connector }),
    ...(networkInterfaces === undefined
      ? {}
      : { [`${prefix}/network-interfaces`]: JSON.stringify(networkInterfaces) }),
    ...(egress === undefined
      ? {}
      : { [`${prefix}/vpc-access-egress`]: egress.toLowerCase().replaceAll("_", "-") }),
  };
}

function toVariable({ name, value = "", valueSource }: NonNullable<Container["env"]>[number]): object {
  const ref = valueSource?.secretKeyRef;
  if (ref === undefined) return { name, value };
  return {
    name,
    valueFrom: { secretKeyRef: { name: ref.secret.split("/").at(-1), key: ref.version ?? "latest" } },
  };
}

/** Rejects rather than to drop what was set elsewhere. */
function refuseUnknown(serviceName: string, template: Template, live: Service | undefined): void {
  const [container = {}, ...others] = template.containers ?? [];
  const found = [
    ...Object.keys(template).filter((key) => !KNOWN.template.includes(key)),
    ...Object.keys(container).filter((key) => !KNOWN.container.includes(key)),
    ...FOREIGN.filter((key) => Boolean(read(live)[key])),
    ...(others.length > 0 ? ["further containers"] : []),
  ];
  if (found.length > 0) throw wouldLose(serviceName, found);
}

function wouldLose(serviceName: string, found: readonly string[]): DeployError {
  return new DeployError(
    "usage",
    `"${serviceName}" has settings that the export would lose: ${found.join(", ")}`,
    {
      fix: `Export it with Google's own tool: gcloud run services describe ${serviceName} --format export`,
    },
  );
}
