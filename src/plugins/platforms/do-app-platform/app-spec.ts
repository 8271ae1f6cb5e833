import { isDeepStrictEqual } from "node:util";
import { DeployError } from "../../../deploy/errors.ts";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { NO_DOMAIN } from "../cloud/domain.ts";
import type { AppDomain, AppEnv, AppImage, AppService, AppSpec } from "./app-types.ts";
import type { Context } from "./context.ts";
import { isMarker, markerOf, readMarker } from "./marker.ts";

const PRIMARY = "PRIMARY";
const COMPONENT = "web";
const SMALLEST = "apps-s-1vcpu-0.5gb";

/**
 * The spec of a release. An update replaces the whole spec, so it is based on the live one: other components,
 * domains and settings stay, and secrets are sent back as the encrypted text that was read.
 */
export function wantedAppSpec(context: Context, spec: ReleaseSpec, live?: AppSpec): AppSpec {
  const { target } = context;
  const service = ownService(live);
  const others = (live?.services ?? []).filter((one) => one !== service);
  const {
    maintenance,
    domains: before,
    ...kept
  } = live ?? { name: target.serviceName, region: target.region };
  const domains = wantedDomains(target.flags.domain, before);
  const awake = maintenance === undefined ? {} : { ...maintenance, archive: false };
  const wakes = maintenance?.archive === true;
  return {
    ...kept,
    ...(domains === undefined ? {} : { domains }),
    ...(maintenance === undefined ? {} : { maintenance: wakes ? awake : maintenance }),
    services: [wantedService(context, spec, service), ...others],
    ...(live?.ingress
      ? {}
      : { ingress: { rules: [{ match: { path: { prefix: "/" } }, component: { name: COMPONENT } }] } }),
  };
}

/** The domain of the option is the primary one; others stay. App Platform fetches its certificate. */
function wantedDomains(
  wanted: string | undefined,
  live: readonly AppDomain[] | undefined,
): readonly AppDomain[] | undefined {
  const before = primaryDomain(live);
  if (wanted === undefined || wanted === (before ?? NO_DOMAIN)) return live;
  const others = (live ?? []).filter(({ domain }) => domain !== wanted);
  if (wanted === NO_DOMAIN) return others.filter(({ type }) => type !== PRIMARY);
  const aliases = others.map((one) => (one.type === PRIMARY ? { ...one, type: "ALIAS" } : one));
  const known = live?.find(({ domain }) => domain === wanted);
  return [{ ...known, domain: wanted, type: PRIMARY }, ...aliases];
}

/** The domain that users reach the service by. */
export function primaryDomain(domains: readonly AppDomain[] | undefined): string | undefined {
  return domains?.find(({ type }) => type === PRIMARY)?.domain;
}

/** Our component: the only one that was not added by others. */
export function ownService(spec: AppSpec | undefined): AppService | undefined {
  return spec?.services?.find(({ name }) => name === COMPONENT) ?? spec?.services?.[0];
}

export function plainEnv(service: AppService | undefined): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const env of service?.envs ?? [])
    if (env.type !== "SECRET" && !isMarker(env)) plain[env.key] = env.value ?? "";
  return plain;
}

/** References of the service's secrets by variable. */
export function secretRefs(service: AppService | undefined): Record<string, string> {
  const { hashes = {} } = readMarker(service?.envs) ?? {};
  const secrets = (service?.envs ?? []).filter(({ type }) => type === "SECRET");
  return Object.fromEntries(secrets.map(({ key }) => [key, secretRef(key, hashes[key])]));
}

/** App Platform numbers no versions of a secret: the keyed hash of a value tells it from others. */
export function secretRef(name: string, hash: string | undefined): string {
  return hash === undefined ? `env/${name}` : `env/${name}/${hash}`;
}

function wantedService(context: Context, spec: ReleaseSpec, live: AppService | undefined): AppService {
  const { flags } = context.target;
  const image = wantedImage(context, spec.image);
  const health = {
    http_path: spec.healthPath,
    initial_delay_seconds: 5,
    period_seconds: 10,
    timeout_seconds: 5,
    failure_threshold: 9,
  };
  const { autoscaling: _, instance_count: __, ...kept } = live ?? {};
  return {
    ...kept,
    name: live?.name ?? COMPONENT,
    image: isDeepStrictEqual(pickImage(live?.image), image) ? (live?.image ?? image) : image,
    http_port: spec.port,
    instance_size_slug: flags.size ?? live?.instance_size_slug ?? SMALLEST,
    ...instances(context, live),
    health_check: live?.health_check?.http_path === spec.healthPath ? live.health_check : health,
    envs: wantedEnvs(context, spec, live?.envs ?? []),
  };
}

/** The registry is not named: for the account's own it must be omitted. Tag and digest exclude each other. */
function wantedImage({ target }: Context, image: string): AppImage {
  const digest = image.split("@")[1];
  const version = digest === undefined ? { tag: image.split(":").at(-1) ?? "latest" } : { digest };
  return { registry_type: "DOCR", repository: target.serviceName, ...version };
}

function pickImage({ registry_type, repository, digest, tag }: AppImage = {}): AppImage {
  return {
    ...(registry_type ? { registry_type } : {}),
    ...(repository ? { repository } : {}),
    ...(tag ? { tag } : {}),
    ...(digest ? { digest } : {}),
  };
}

function instances({ target }: Context, live: AppService | undefined): Partial<AppService> {
  const { minInstances, maxInstances, scaleAtCpu } = target.flags;
  const scaling = live?.autoscaling;
  if (minInstances === undefined && maxInstances === undefined && (scaleAtCpu === undefined || !scaling))
    return scaling ? { autoscaling: scaling } : { instance_count: live?.instance_count ?? 1 };
  const before = scaling?.min_instance_count ?? live?.instance_count ?? 1;
  const least = minInstances ?? Math.min(before, maxInstances ?? before);
  const most = maxInstances ?? Math.max(least, scaling?.max_instance_count ?? least);
  if (most <= least) return { instance_count: least };
  return {
    autoscaling: {
      min_instance_count: least,
      max_instance_count: most,
      metrics:
        scaleAtCpu === undefined && scaling?.metrics
          ? scaling.metrics
          : { cpu: { percent: scaleAtCpu ?? 80 } },
    },
  };
}

function wantedEnvs(context: Context, spec: ReleaseSpec, live: readonly AppEnv[]): readonly AppEnv[] {
  const wanted: AppEnv[] = Object.entries(spec.env).map(([key, value]) => ({
    key,
    value,
    scope: "RUN_TIME",
    type: "GENERAL",
  }));
  const hashes: Record<string, string> = {};
  for (const key of Object.keys(spec.secrets).sort()) {
    const given = context.given.get(key);
    const kept = live.find((env) => env.key === key && env.type === "SECRET");
    const hash = given?.hash ?? readMarker(live)?.hashes[key] ?? spec.secretHashes[key];
    if (hash !== undefined) hashes[key] = hash;
    const unchanged = kept !== undefined && readMarker(live)?.hashes[key] === hash;
    wanted.push(unchanged || (given === undefined && kept) ? kept : newSecret(key, given?.value, spec));
  }
  wanted.push(markerOf(context.target, hashes));
  const text = (envs: readonly AppEnv[]) =>
    envs.map((env) => JSON.stringify([env.key, env.value ?? "", env.type ?? "GENERAL"])).sort();
  return isDeepStrictEqual(text(wanted), text(live)) ? live : wanted;
}

function newSecret(key: string, value: string | undefined, spec: ReleaseSpec): AppEnv {
  if (value !== undefined) return { key, value, scope: "RUN_TIME", type: "SECRET" };
  // A plan is made before the values are given.
  if (spec.secrets[key] === undefined) return { key, value: "planned", scope: "RUN_TIME", type: "SECRET" };
  throw new DeployError("failed", `The value of secret ${key} is unknown`, {
    detail: "App Platform stores secrets only in the app, and the app does not have this one",
    fix: `Set it for this command: ${key}=… svc deploy up …`,
  });
}
