import type { HealthCheckResult } from "../core/models/deployment.ts";
import { RELEASE } from "./config.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { waitHealthy } from "./health.ts";
import { storeOf } from "./job-store.ts";
import { HEALTH_PATH } from "./plan.ts";
import type { Release } from "./platform.ts";

/** The health of a service that only its platform could check. */
export function checkedElsewhere({ platform, tools }: Deployment, reason: string): HealthCheckResult {
  return {
    status: "unknown",
    response_time: 0,
    status_code: null,
    error_message: `checked by ${platform.name} only: ${reason}`,
    endpoint: null,
    timestamp: tools.now().getTime() / 1000,
  };
}

/**
 * Whether a release may serve: it responded as expected, or its platform checked it because nobody else can.
 */
export function isWell({ status, endpoint }: HealthCheckResult): boolean {
  return status === "healthy" || (status === "unknown" && endpoint === null);
}

/** What a release replaces: the mark of the one before, and the time since when it is replaced. */
export interface Replaced {
  readonly mark: string | undefined;
  readonly startedAt: Date;
}

/** Waits until a release is healthy, for at most this many seconds. */
export async function releaseHealth(
  deployment: Deployment,
  release: Release,
  replaced: Replaced | undefined,
  seconds: number,
): Promise<HealthCheckResult> {
  const { session, tools, polling } = deployment;
  const base = release.probeUrl ?? release.url;
  if (base === undefined)
    throw new DeployError("failed", "The platform did not report a URL for the service", {
      fix: "Run svc deploy status in a minute",
    });
  const blocked = await session.probeBlocked?.();
  if (blocked !== undefined) return checkedElsewhere(deployment, blocked);
  const headers = await session.probeHeaders?.();
  const mark = release.env?.[RELEASE];
  const firstWait = Math.min(polling.firstWait ?? 30, seconds / 3);
  return waitHealthy({
    tools,
    endpoints: [`${base.replace(/\/$/, "")}${HEALTH_PATH}`],
    // Where only settings of the platform or the public URL differ, both have one mark: the age of the process tells.
    mark: mark === replaced?.mark ? undefined : mark,
    // The address of one revision leads to no other one.
    startedAfter: release.probeUrl === undefined ? replaced?.startedAt : undefined,
    needsProbe: storeOf(release) === "database",
    firstWait,
    interval: polling.interval ?? 5,
    config: { timeout: Math.min(polling.timeout ?? 60, Math.max(1, seconds - firstWait)) },
    ...(headers ? { headers } : {}),
    onCheck: ({ status, error_message }) => {
      if (status !== "healthy") tools.report(error_message ?? status);
    },
  });
}
