import { isDeepStrictEqual } from "node:util";
import type { ReleaseSpec } from "../../../deploy/platform.ts";
import { keepsRole, usesBucket } from "../aws/job-bucket.ts";
import { roleArn, type WantedRole } from "../aws/roles.ts";
import { type Context, executionRole, taskRole } from "./context.ts";
import type { Configuration, Network, PrimaryContainer, ScalingTarget } from "./service-types.ts";
import { findOwnService } from "./services.ts";

export const X86 = "X86_64";
const ARM = "ARM64";

/** Everything about a service that a release determines. Networks only where an option names them. */
export interface Wanted {
  readonly executionRoleArn: string;
  readonly taskRoleArn?: string;
  readonly networkConfiguration?: Network;
  readonly primaryContainer: PrimaryContainer;
  readonly healthCheckPath: string;
  readonly cpu: string;
  readonly memory: string;
  readonly cpuArchitecture: string;
  readonly scalingTarget?: ScalingTarget;
}

export function wantedConfiguration(context: Context, spec: ReleaseSpec, live?: Configuration): Wanted {
  const { flags } = context.target;
  const range = wantedRange(context, live);
  const logs = live?.primaryContainer?.awsLogsConfiguration;
  const taskRoleArn = wantedTaskRole(context, spec, live);
  const network = wantedNetwork(context, live?.networkConfiguration);
  return {
    executionRoleArn: wantedExecutionRole(context, live),
    ...(taskRoleArn === undefined ? {} : { taskRoleArn }),
    ...(network === undefined ? {} : { networkConfiguration: network }),
    primaryContainer: {
      image: spec.image,
      containerPort: spec.port,
      environment: Object.entries(spec.env)
        .map(([name, value]) => ({ name, value }))
        .sort(byName),
      secrets: Object.entries(spec.secrets)
        .map(([name, ref]) => ({ name, valueFrom: ref?.ref ?? liveSecret(live, name) }))
        .sort(byName),
      ...(logs ? { awsLogsConfiguration: logs } : {}),
    },
    healthCheckPath: spec.healthPath,
    cpu: flags.cpu ?? live?.cpu ?? "256",
    memory: flags.memory ?? live?.memory ?? "512",
    cpuArchitecture: wantedProcessor(context, live),
    ...(range === undefined ? {} : { scalingTarget: range }),
  };
}

/** Whether a service already has the wanted configuration. */
export function isSameConfiguration(live: Configuration | undefined, wanted: Wanted): boolean {
  return (
    isSameContainer(live?.primaryContainer, wanted.primaryContainer) &&
    live?.cpu === wanted.cpu &&
    live.memory === wanted.memory &&
    (live.cpuArchitecture ?? X86) === wanted.cpuArchitecture &&
    live.healthCheckPath === wanted.healthCheckPath &&
    live.executionRoleArn === wanted.executionRoleArn &&
    live.taskRoleArn === wanted.taskRoleArn &&
    isSameNetwork(live.networkConfiguration, wanted.networkConfiguration) &&
    isSameRange(live, wanted)
  );
}

/** The processor of tasks as ECS names it: that of the option, else the one that the service has. */
export function wantedProcessor({ target }: Context, live: Configuration | undefined): string {
  const { architecture } = target.flags;
  if (architecture === undefined) return live?.cpuArchitecture ?? X86;
  return architecture === "arm64" ? ARM : X86;
}

/** As Docker names it. */
export async function architectureOf(context: Context): Promise<string> {
  const live = await findOwnService(context);
  return wantedProcessor(context, live?.activeConfigurations?.[0]) === ARM ? "arm64" : "amd64";
}

/** The role that starts tasks: what an option names, what was set elsewhere, else the one that svc creates. */
export function wantedExecutionRole(context: Context, live: Configuration | undefined): string {
  return (
    context.target.flags.executionRole ??
    live?.executionRoleArn ??
    roleArn(context, executionRole(context).name)
  );
}

/**
 * The role that the agents' own calls are made with: what an option names, what was set elsewhere, else with a bucket the
 * one that svc creates.
 */
export function wantedTaskRole(
  context: Context,
  spec: Pick<ReleaseSpec, "env">,
  live: Configuration | undefined,
): string | undefined {
  const kept = keepsRole(spec, plainEnv(live?.primaryContainer)) ? live?.taskRoleArn : undefined;
  const own = usesBucket(spec) ? roleArn(context, taskRole(context).name) : undefined;
  return context.target.flags.taskRole ?? kept ?? own;
}

/** The role that gets access to a bucket; undefined where the service runs with another than svc's own. */
export function bucketRole(
  context: Context,
  spec: Pick<ReleaseSpec, "env">,
  live: Configuration | undefined,
): WantedRole | undefined {
  const own = taskRole(context);
  return wantedTaskRole(context, spec, live) === roleArn(context, own.name) ? own : undefined;
}

/** ECS adds one security group of its own to those that were asked for. */
export function isSameNetwork(live: Network | undefined, wanted: Network | undefined): boolean {
  const { subnets = [], securityGroups = [] } = live ?? {};
  const groups = wanted?.securityGroups ?? securityGroups;
  return (
    isDeepStrictEqual(new Set(subnets), new Set(wanted?.subnets ?? subnets)) &&
    groups.every((group) => securityGroups.includes(group)) &&
    securityGroups.length <= groups.length + 1
  );
}

export function isSameRange(live: Configuration | undefined, { scalingTarget }: Wanted): boolean {
  if (scalingTarget === undefined) return true;
  const before = live?.scalingTarget ?? {};
  return Object.entries(scalingTarget).every(([key, value]) => before[key as keyof ScalingTarget] === value);
}

export function isSameContainer(a: PrimaryContainer | undefined, b: PrimaryContainer): boolean {
  return isDeepStrictEqual(partsOf(a), partsOf(b));
}

export function plainEnv(container: PrimaryContainer | undefined): Record<string, string> {
  return Object.fromEntries((container?.environment ?? []).map(({ name = "", value = "" }) => [name, value]));
}

function partsOf(container: PrimaryContainer = {}) {
  return {
    image: container.image,
    port: container.containerPort,
    env: plainEnv(container),
    secrets: Object.fromEntries((container.secrets ?? []).map(({ name, valueFrom }) => [name, valueFrom])),
  };
}

/** An update replaces the whole network, so that what is not named is sent as it is. */
function wantedNetwork({ target }: Context, live: Network = {}): Network | undefined {
  const [subnets, securityGroups] = [target.flags.subnets, target.flags.securityGroups].map(namesIn);
  if (subnets === undefined && securityGroups === undefined) return undefined;
  return { ...live, ...(subnets && { subnets }), ...(securityGroups && { securityGroups }) };
}

function namesIn(list: string | undefined): readonly string[] | undefined {
  return list?.split(",").map((name) => name.trim());
}

function wantedRange({ target }: Context, live: Configuration | undefined): Wanted["scalingTarget"] {
  const { minInstances, maxInstances, scaleAtCpu } = target.flags;
  if ([minInstances, maxInstances, scaleAtCpu].every((value) => value === undefined)) return undefined;
  const before = live?.scalingTarget?.minTaskCount ?? 1;
  const minTaskCount = minInstances ?? Math.min(before, maxInstances ?? before);
  return {
    minTaskCount,
    maxTaskCount: maxInstances ?? Math.max(minTaskCount, live?.scalingTarget?.maxTaskCount ?? 1),
    ...(scaleAtCpu === undefined
      ? {}
      : { autoScalingMetric: "AVERAGE_CPU", autoScalingTargetValue: scaleAtCpu }),
  };
}

function liveSecret(live: Configuration | undefined, name: string): string {
  return (
    live?.primaryContainer?.secrets?.find((secret) => secret.name === name)?.valueFrom ?? `planned:${name}`
  );
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
}
