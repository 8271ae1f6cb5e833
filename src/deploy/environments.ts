import { messageOf } from "../core/base/error-text.ts";
import type { HealthCheckResult } from "../core/models/deployment.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError, isDeployError } from "./errors.ts";
import { expiryOf } from "./expiry.ts";
import type { Release } from "./platform.ts";
import { healthOf } from "./status.ts";

/** An environment of a project that runs on a platform. */
export interface RunningEnvironment {
  readonly environment: string;
  readonly serviceName: string;
  readonly since: string | undefined;
  readonly expires: Date | undefined;
  readonly live: Release | undefined;
  readonly health: HealthCheckResult | undefined;
  /** Why it could not be read. */
  readonly problem: string | undefined;
}

/** Opens the deployment of another environment in the same place. */
export type OpenEnvironment = (environment: string) => Promise<Deployment>;

/** All environments of the project where this deployment is, as the platform knows them, by name. */
export async function listEnvironments(
  { platform, session }: Deployment,
  open: OpenEnvironment,
): Promise<RunningEnvironment[]> {
  if (session.environments === undefined)
    throw new DeployError("usage", `Platform ${platform.name} cannot list the environments of a project`, {
      fix: "svc deploy status --env <name> shows one",
    });
  const found = [...(await session.environments())].sort((a, b) => (a.environment < b.environment ? -1 : 1));
  return Promise.all(
    found.map(async ({ environment, since }) => {
      const deployment = await open(environment);
      const base = { environment, serviceName: deployment.target.serviceName, since };
      try {
        const live = await deployment.session.inspect();
        const health = await healthOf(deployment, live);
        return { ...base, expires: expiryOf(live), live, health, problem: undefined };
      } catch (error) {
        // The others are read anyway.
        const problem = messageOf(error);
        return { ...base, expires: undefined, live: undefined, health: undefined, problem };
      } finally {
        await deployment.close();
      }
    }),
  );
}

/** Whether an environment is over its time. One without an expiry never is. */
export function isExpired({ expires }: { readonly expires: Date | undefined }, now: Date): boolean {
  return expires !== undefined && expires.getTime() <= now.getTime();
}

/** Whether a removal was declined because the environment has been renewed since. */
export function isDeclined(error: unknown): boolean {
  return isDeployError(error) && error.code === "declined";
}
