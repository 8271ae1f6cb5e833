import type { Release } from "../../../deploy/platform.ts";
import { instancesText } from "../cloud/instances-text.ts";
import { sizeText } from "../cloud/size-text.ts";
import type { Context } from "./context.ts";
import { sizeOf } from "./price.ts";
import type { Container, Revision, Service, ServiceScaling } from "./service-types.ts";
import { plainEnv, secretRefs } from "./template.ts";
import { servingRevision, shortName } from "./traffic.ts";

/** What is serving users now, as a release. */
export async function servingRelease(context: Context, service: Service): Promise<Release> {
  const newest = shortName(service.latestCreatedRevision ?? "");
  const serving = servingRevision(service) ?? newest;
  if (serving === newest) return toRelease(context, service, serving, service.template?.containers?.[0]);
  const google = await context.google();
  const revision = await google.find<Revision>("run", `/v2/${context.service}/revisions/${serving}`);
  return toRelease(context, service, serving, revision?.containers?.[0]);
}

/** The newest revision as a release, whether or not it has traffic. */
export function newestRelease(context: Context, service: Service): Release {
  const newest = shortName(service.latestCreatedRevision ?? "");
  return toRelease(context, service, newest, service.template?.containers?.[0]);
}

export function toRelease(
  context: Context,
  service: Service,
  revision: string,
  container: Container | undefined,
): Release {
  const secrets = secretRefs(container, context.project);
  return {
    id: context.service,
    revision,
    image: container?.image,
    url: publicUrl(context, service),
    status: statusOf(service),
    env: plainEnv(container),
    secretNames: Object.keys(secrets),
    secrets,
    resources: {
      ...sizeText(sizeOf(container?.resources?.limits)),
      instances: instanceRange(service.scaling),
    },
    data: { revision },
  };
}

/** The address that is known before the service exists, if the service uses it. */
export function publicUrl(context: Context, service: Service): string | undefined {
  const start = `https://${context.target.serviceName}-`;
  const end = `.${context.target.region}.run.app`;
  return service.urls?.find((url) => url.startsWith(start) && url.endsWith(end)) ?? service.uri;
}

function statusOf(service: Service): string {
  if (service.reconciling) return "RECONCILING";
  if (service.scaling?.scalingMode === "MANUAL" && !service.scaling.manualInstanceCount)
    return "SCALED_TO_ZERO";
  return service.terminalCondition?.state === "CONDITION_SUCCEEDED" ? "READY" : "FAILED";
}

function instanceRange(scaling: ServiceScaling | undefined): string {
  if (scaling?.scalingMode === "MANUAL") return String(scaling.manualInstanceCount ?? 0);
  return instancesText(scaling?.minInstanceCount ?? 0, scaling?.maxInstanceCount);
}
