import { isDeepStrictEqual } from "node:util";
import type { ReleaseSpec } from "../../deploy/platform.ts";
import { usesBucket } from "../aws/job-bucket.ts";
import { roleArn } from "../aws/roles.ts";
import type { Context } from "./context.ts";
import { executionRole, taskRole } from "./context.ts";
import type { Configuration, PrimaryContainer, ScalingTarget } from "./service-types.ts";

/** Everything about a service that a release determines, except networks: ECS adds its own security group. */
export interface Wanted {
  readonly executionRoleArn: string;
  readonly taskRoleArn?: string;
  readonly primaryContainer: PrimaryContainer;
  readonly healthCheckPath: string;
  readonly cpu: string;
  readonly memory: string;
  readonly scalingTarget?: ScalingTarget;
}

export function wantedConfiguration(context: Context, spec: ReleaseSpec, live?: Configuration): Wanted {
  const { flags } = context.target;
  const range = wantedRange(context, live);
  const logs = live?.primaryContainer?.awsLogsConfiguration;
  return {
    executionRoleArn: roleArn(context, executionRole(context).name),
    ...(usesBucket(spec) ? { taskRoleArn: roleArn(context, taskRole(context).name) } : {}),
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
    ...(range === undefined ? {} : { scalingTarget: range }),
  };
}

/** Whether a service already has the wanted configuration. */
export function isSameConfiguration(live: Configuration | undefined, wanted: Wanted): boolean {
  return (
    isSameContainer(live?.primaryContainer, wanted.primaryContainer) &&
    live?.cpu === wanted.cpu &&
    live.memory === wanted.memory &&
    live.healthCheckPath === wanted.healthCheckPath &&
    live.executionRoleArn === wanted.executionRoleArn &&
    live.taskRoleArn === (wanted.taskRoleArn ?? live.taskRoleArn) &&
    isSameRange(live, wanted)
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
