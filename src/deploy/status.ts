import type { DeploymentState, HealthCheckResult } from "../core/models/deployment.ts";
import { type Deployment, stateKey } from "./deployment.ts";
import { checkWithRetries } from "./health.ts";
import { readLock } from "./lock.ts";
import { driftOf, HEALTH_PATH } from "./plan.ts";
import type { LockHolder, PlatformSession, Release } from "./platform.ts";
import { checkedElsewhere } from "./release-health.ts";
import { standing } from "./standing.ts";
import { stateBase } from "./state.ts";

/** A database that runs beside a service. */
export type DatabaseStatus = NonNullable<Awaited<ReturnType<NonNullable<PlatformSession["databaseStatus"]>>>>;

/** The current state of a deployment. */
export interface Status {
  readonly live: Release | undefined;
  readonly state: DeploymentState | undefined;
  readonly health: HealthCheckResult | undefined;
  /** Set where a database runs beside the service. */
  readonly database: DatabaseStatus | undefined;
  readonly secretNames: readonly string[];
  readonly drift: readonly string[];
  /** What an unfinished run did, if there is one. */
  readonly unfinished: string | undefined;
  readonly lock: LockHolder | undefined;
}

/** Reads the running service and checks its health. The result is stored in the state file. */
export async function status(deployment: Deployment): Promise<Status> {
  const { session, journal } = deployment;
  const state = await deployment.state.read();
  const live = await session.inspect();
  const secretNames = (await session.listSecrets()).map((secret) => secret.name);
  const lock = readLock(`${stateBase(stateKey(deployment))}.lock`) ?? (await session.lockedBy?.());
  const health = await healthOf(deployment, live);
  const database = live && (await session.databaseStatus?.());
  if (state !== undefined && health !== undefined && lock === undefined)
    await deployment.state.write({
      ...state,
      health_status: health.status,
      provider_data: { ...state.provider_data, last_health: health },
    });
  return {
    live,
    state,
    health,
    database,
    secretNames,
    drift: driftOf(state, live),
    unfinished: journal.unfinished.length > 0 ? standing(journal) : undefined,
    lock,
  };
}

/** The health of what runs, by its own route or by the platform's word; undefined without an address. */
export async function healthOf(
  deployment: Deployment,
  live: Release | undefined,
): Promise<HealthCheckResult | undefined> {
  const { session, tools } = deployment;
  if (live?.url === undefined) return undefined;
  const blocked = await session.probeBlocked?.();
  if (blocked !== undefined) return checkedElsewhere(deployment, blocked);
  const headers = await session.probeHeaders?.();
  return checkWithRetries({
    tools,
    endpoints: [`${live.url.replace(/\/$/, "")}${HEALTH_PATH}`],
    config: { timeout: deployment.polling.timeout ?? 60, max_retries: 2 },
    ...(headers ? { headers } : {}),
  });
}
