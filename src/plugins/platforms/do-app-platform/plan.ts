import type { ResourceAction } from "../../../core/models/deployment.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Release, ReleaseSpec, StoredSecret } from "../../../deploy/platform.ts";
import { changesOf, type FieldChange } from "../../../deploy/spec-changes.ts";
import { releaseActions, resourceAction } from "../cloud/actions.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { ownService, primaryDomain, secretRefs, wantedAppSpec } from "./app-spec.ts";
import type { App, AppSpec } from "./app-types.ts";
import { findOwnApp } from "./apps.ts";
import type { Context } from "./context.ts";
import { readMarker } from "./marker.ts";
import { readSizes } from "./sizes.ts";

/** The secrets in the app's spec, with their keyed hashes. */
export function storedSecrets(app: App | undefined): StoredSecret[] {
  const service = ownService(app?.spec);
  const hashes = readMarker(service?.envs)?.hashes ?? {};
  const refs = secretRefs(service);
  return Object.entries(refs).map(([name, ref]) => {
    const hash = hashes[name];
    return { name, ref, ...(hash === undefined ? {} : { hash }) };
  });
}

/** What a release would change, after App Platform has checked the spec that would be sent. */
export async function planRelease(
  context: Context,
  spec: ReleaseSpec,
  live?: Release,
): Promise<ResourceAction[]> {
  const app = await findOwnApp(context);
  const wanted = wantedAppSpec(context, spec, app?.spec);
  const changes = app === undefined ? [] : settingChanges(app.spec, wanted);
  const { registry, target } = context;
  return [
    resourceAction("registry", registry.name, registry.exists, "Container registry of the account"),
    ...releaseActions({ serviceName: target.serviceName, spec, live, changes }),
  ];
}

/** DigitalOcean's own price of the app by month: from the check of its spec, or of the size of its instances. */
export async function proposedCost(context: Context, spec: ReleaseSpec): Promise<number | undefined> {
  const app = await findOwnApp(context);
  const wanted = wantedAppSpec(context, spec, app?.spec);
  try {
    const proposal = await context.api.send<{ app_cost?: number }>("POST", "/v2/apps/propose", {
      body: { spec: wanted, ...(app === undefined ? {} : { app_id: app.id }) },
      idempotent: true,
    });
    return proposal.app_cost;
  } catch (error) {
    if (!(error instanceof CloudError) || (error.status !== 422 && error.status !== 400)) throw error;
    // An image that is not pushed yet cannot be found; anything else that is refused now would be refused
    // later.
    if (/image|registry|repository|tag|digest/i.test(error.text)) return sizeCost(context, wanted);
    throw new DeployError("bad_config", "App Platform would refuse the app with this configuration", {
      detail: error.message,
      outcome: "Nothing was changed",
    });
  }
}

/** Price by month of the instances that always run. */
async function sizeCost({ api }: Context, wanted: AppSpec): Promise<number | undefined> {
  const service = ownService(wanted);
  const count = service?.autoscaling?.min_instance_count ?? service?.instance_count ?? 1;
  const size = (await readSizes(api)).find(({ slug }) => slug === service?.instance_size_slug);
  const price = Number(size?.usd_per_month);
  return Number.isFinite(price) ? price * count : undefined;
}

function settingChanges(live: AppSpec, wanted: AppSpec): FieldChange[] {
  const [from, to] = [ownService(live), ownService(wanted)];
  return changesOf([
    ["port", from?.http_port, to?.http_port],
    ["size", from?.instance_size_slug, to?.instance_size_slug],
    ["instances", from?.autoscaling ?? from?.instance_count, to?.autoscaling ?? to?.instance_count],
    ["domain", primaryDomain(live.domains), primaryDomain(wanted.domains)],
    ["health_path", from?.health_check?.http_path, to?.health_check?.http_path],
    ["archived", live.maintenance?.archive ?? false, wanted.maintenance?.archive ?? false],
  ]);
}
