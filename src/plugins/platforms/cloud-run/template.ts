import type { ReleaseSpec, SecretRef } from "../../../deploy/platform.ts";
import type { CloudRunFlags } from "./flags.ts";
import { wantedVpc } from "./network.ts";
import { parseSecretRef } from "./secrets.ts";
import type { Container, EnvVar, Probe, Resources, ServiceScaling, Template } from "./service-types.ts";

/** Seconds of a request of a new service: the most that Cloud Run allows, as streams last long. */
const LONGEST_REQUEST = 3600;

/** Variables that Cloud Run sets itself and does not accept. */
const RESERVED = ["PORT", "K_SERVICE", "K_REVISION", "K_CONFIGURATION"];

/**
 * The template for the spec. Based on the live one: settings made elsewhere (volumes, network, annotations)
 * stay, and equivalent values keep the server's notation, so that no false differences appear.
 */
export function wantedTemplate(spec: ReleaseSpec, flags: CloudRunFlags, live?: Template): Template {
  // A revision name of the last rollout would clash with the next one.
  const { revision: _, vpcAccess: before, ...kept } = live ?? {};
  const [first, ...others] = live?.containers ?? [];
  const container: Container = {
    ...first,
    image: spec.image,
    env: wantedEnv(spec, first?.env),
    ports: first?.ports?.[0]?.containerPort === spec.port ? first.ports : [{ containerPort: spec.port }],
    resources: wantedResources(flags, first?.resources),
    startupProbe: wantedProbe(spec, first?.startupProbe),
  };
  const timeout = flags.requestTimeout ?? (live === undefined ? LONGEST_REQUEST : undefined);
  const vpcAccess = wantedVpc(flags, before);
  return {
    ...kept,
    containers: [container, ...others],
    ...(timeout === undefined ? {} : { timeout: `${timeout}s` }),
    ...(vpcAccess === undefined ? {} : { vpcAccess }),
    ...(flags.concurrency === undefined ? {} : { maxInstanceRequestConcurrency: flags.concurrency }),
    ...(flags.serviceAccount === undefined ? {} : { serviceAccount: flags.serviceAccount }),
  };
}

/** Scaling of the service as a whole; a limit that is not requested stays unchanged. */
export function wantedScaling(flags: CloudRunFlags, live: ServiceScaling = {}): ServiceScaling {
  const { manualInstanceCount: _, scalingMode: __, ...kept } = live;
  const before = live.minInstanceCount ?? 0;
  const most = flags.maxInstances ?? Number.POSITIVE_INFINITY;
  const least = flags.minInstances ?? (flags.scaleToZero ? 0 : Math.min(before, most));
  return {
    ...kept,
    ...(live.scalingMode === "MANUAL" ? { scalingMode: "AUTOMATIC" } : {}),
    ...(least === before ? {} : { minInstanceCount: least }),
    ...(flags.maxInstances === undefined ? {} : { maxInstanceCount: flags.maxInstances }),
  };
}

/** Scaling of a new service: one instance that always runs, for jobs that continue by themselves. */
export function newScaling(flags: CloudRunFlags): ServiceScaling {
  return wantedScaling({ ...flags, minInstances: flags.minInstances ?? (flags.scaleToZero ? 0 : 1) });
}

/** Plain variables of a container. */
export function plainEnv(container: Container | undefined): Record<string, string> {
  const plain: Record<string, string> = {};
  for (const { name, value, valueSource } of container?.env ?? [])
    if (!valueSource) plain[name] = value ?? "";
  return plain;
}

/** References of the secrets that a container takes variables from. */
export function secretRefs(container: Container | undefined, project: string): Record<string, string> {
  const refs: Record<string, string> = {};
  for (const { name, valueSource } of container?.env ?? []) {
    const ref = valueSource?.secretKeyRef;
    if (ref === undefined) continue;
    const id = ref.secret.split("/").at(-1);
    refs[name] = `projects/${project}/secrets/${id}/versions/${ref.version ?? "latest"}`;
  }
  return refs;
}

function wantedEnv(spec: ReleaseSpec, live: readonly EnvVar[] = []): readonly EnvVar[] {
  const wanted: EnvVar[] = [];
  for (const [name, value] of Object.entries(spec.env))
    if (!RESERVED.includes(name)) wanted.push({ name, value });
  for (const [name, ref] of Object.entries(spec.secrets)) {
    const entry = ref ? toSecretVar(name, ref) : live.find((known) => known.name === name);
    wanted.push(entry ?? { name, valueSource: { secretKeyRef: { secret: name, version: "1" } } });
  }
  const text = (entries: readonly EnvVar[]) => entries.map(envText).sort().join("\n");
  return text(wanted) === text(live) ? live : wanted;
}

/** Pinned to the version: with "latest" a rollback would keep the new secret. */
function toSecretVar(name: string, ref: SecretRef): EnvVar {
  const { id, version } = parseSecretRef(ref.ref);
  return { name, valueSource: { secretKeyRef: { secret: id, version } } };
}

function envText({ name, value = "", valueSource }: EnvVar): string {
  const ref = valueSource?.secretKeyRef;
  return JSON.stringify(ref ? [name, ref.secret.split("/").at(-1), ref.version] : [name, value]);
}

function wantedResources(flags: CloudRunFlags, live: Resources | undefined): Resources {
  const limits = { cpu: "1", memory: "512Mi", ...live?.limits };
  if (flags.cpu !== undefined && milliCpu(flags.cpu) !== milliCpu(limits.cpu)) limits.cpu = flags.cpu;
  if (flags.memory !== undefined) limits.memory = flags.memory;
  // The server omits false values from its responses, and keeps what was written.
  const idle = idlesBetweenRequests(live);
  const wanted = flags.scaleToZero ?? (flags.alwaysOnCpu === undefined ? idle : !flags.alwaysOnCpu);
  return {
    ...live,
    limits,
    ...(live !== undefined && wanted === idle ? {} : { cpuIdle: wanted }),
    ...(live === undefined ? { startupCpuBoost: true } : {}),
  };
}

/** Whether an instance gets CPU only during requests; by default it does not. */
export function idlesBetweenRequests(resources: Resources | undefined): boolean {
  return resources?.cpuIdle === true;
}

function milliCpu(text: string): number {
  return text.endsWith("m") ? Number(text.slice(0, -1)) : Number(text) * 1000;
}

function wantedProbe(spec: ReleaseSpec, live: Probe | undefined): Probe {
  if (live?.httpGet?.path === spec.healthPath) return live;
  // Two minutes to start; a try must time out before the next one.
  return { httpGet: { path: spec.healthPath }, periodSeconds: 5, timeoutSeconds: 4, failureThreshold: 24 };
}
