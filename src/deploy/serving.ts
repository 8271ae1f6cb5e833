import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { warn } from "./events.ts";
import type { Release } from "./platform.ts";

/** What a deployment intends to run: its image by digest, and its plain variables. */
export interface Wanted {
  readonly image: string;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/**
 * Rejects with `DeployError` "superseded" if something other than this deployment's release is serving. No
 * lock reaches other machines, so success is decided by what the platform reports as the serving image.
 */
export async function confirmServing(
  { session, target, emit }: Pick<Deployment, "session" | "target" | "emit">,
  wanted: Wanted,
): Promise<void> {
  const serving = await session.inspect();
  if (serving !== undefined && serving.image === undefined)
    warn(
      emit,
      `The platform does not report which image "${target.serviceName}" is serving, so it could not be verified`,
    );
  checkRelease(target.serviceName, serving, wanted);
}

/** Rejects if a release belongs to another deployment. */
export function checkRelease(serviceName: string, found: Release | undefined, wanted: Wanted): void {
  if (found === undefined || !isWanted(found, wanted)) throw superseded(serviceName, found, wanted);
}

/** Two names of an image: the same digest, wherever it is pulled from, or else the same text. */
export function isSameImage(one: string, other: string): boolean {
  const [digest, second] = [one.split("@")[1], other.split("@")[1]];
  return digest !== undefined && second !== undefined ? digest === second : one === other;
}

/** The error of a deployment that was replaced by another one. */
export function superseded(serviceName: string, found: Release | undefined, wanted?: Wanted): DeployError {
  const what = found === undefined ? "nothing" : nameOf(found);
  return new DeployError(
    "superseded",
    found === undefined
      ? `"${serviceName}" was removed while it was being deployed`
      : `Another deployment replaced this one: "${serviceName}" has ${what}`,
    {
      ...(wanted ? { detail: `This deployment released ${wanted.image}` } : {}),
      outcome: "The other deployment was not changed, and nothing was recorded here",
      fix: "Check what is serving with svc deploy status, and deploy again if yours should serve. In CI, put all deployments of one target into one concurrency group",
    },
  );
}

function nameOf({ image, revision }: Release): string {
  return `image ${image ?? "(unknown)"}${revision === undefined ? "" : `, revision ${revision}`}`;
}

function isWanted(found: Release, { image, env = {} }: Wanted): boolean {
  if (found.image !== undefined && !isSameImage(found.image, image)) return false;
  // Platforms that learn the address late fill it in.
  return Object.entries(env).every(
    ([key, value]) => key === "SERVICE_PUBLIC_URL" || (found.env?.[key] ?? value) === value,
  );
}
