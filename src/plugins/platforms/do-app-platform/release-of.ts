import type { Release } from "../../../deploy/platform.ts";
import { instancesText } from "../cloud/instances-text.ts";
import { ownService, plainEnv, primaryDomain, secretRefs } from "./app-spec.ts";
import type { App, AppService, Deployment } from "./app-types.ts";
import type { Context } from "./context.ts";
import { REGISTRY_HOST } from "./registry.ts";

/** What is serving users now, as a release. */
export function activeRelease(context: Context, app: App): Release {
  return toRelease(context, app, app.active_deployment);
}

export function toRelease(context: Context, app: App, deployment: Deployment | undefined): Release {
  const service = ownService(deployment?.spec ?? app.spec);
  const secrets = secretRefs(service);
  return {
    id: app.id,
    revision: deployment?.id,
    image: imageOf(context, service),
    url: (pendingDomain(app) ? app.default_ingress : app.live_url || app.default_ingress)?.replace(/\/$/, ""),
    status: statusOf(app),
    env: plainEnv(service),
    secretNames: Object.keys(secrets),
    secrets,
    resources: { ...sizeOf(service), instances: instancesOf(service) },
    data: { deployment: deployment?.id ?? null },
  };
}

/** The primary domain, while it does not lead to the app yet. */
export function pendingDomain({ spec, domains = [] }: App): string | undefined {
  const primary = primaryDomain(spec.domains);
  const state = domains.find((one) => one.spec?.domain === primary);
  return primary === undefined || state?.phase === "ACTIVE" ? undefined : primary;
}

function statusOf(app: App): string {
  if (app.spec.maintenance?.archive) return "ARCHIVED";
  return (
    (app.in_progress_deployment ?? app.pending_deployment ?? app.active_deployment)?.phase ?? "NOT_DEPLOYED"
  );
}

function imageOf({ registry }: Context, service: AppService | undefined): string | undefined {
  const { repository, digest, tag } = service?.image ?? {};
  if (repository === undefined) return undefined;
  const version = digest ? `@${digest}` : `:${tag ?? "latest"}`;
  return `${REGISTRY_HOST}/${registry.name}/${repository}${version}`;
}

/** `apps-s-1vcpu-0.5gb` says both. */
function sizeOf(service: AppService | undefined): { cpu?: string; memory?: string } {
  const match = /(\d+)vcpu-([\d.]+gb)/.exec(service?.instance_size_slug ?? "");
  return match?.[1] && match[2] ? { cpu: `${match[1]} vCPU`, memory: match[2].replace("gb", " GB") } : {};
}

function instancesOf(service: AppService | undefined): string {
  const scaling = service?.autoscaling;
  return scaling
    ? instancesText(scaling.min_instance_count ?? 1, scaling.max_instance_count)
    : String(service?.instance_count ?? 1);
}
