import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import type { Release } from "./platform.ts";

/** What a deployment set out to run: its image by digest, and its plain variables. */
export interface Wanted {
  readonly image: string;
  readonly env?: Readonly<Record<string, string>> | undefined;
}

/**
 * Rejects with `DeployError` "superseded" where something else serves than this deployment released. No lock reaches other
 * machines, so success is only what the platform itself says about the image that serves.
 */
export async function confirmServing(
  { session, target, emit }: Pick<Deployment, "session" | "target" | "emit">,
  wanted: Wanted,
): Promise<void> {
  const serving = await session.inspect();
  if (serving !== undefined && serving.image === undefined)
    emit({
      type: "notice",
      level: "warning",
      message: `The platform does not say which image "${target.serviceName}" serves: that it is this one could not be checked`,
    });
  checkRelease(target.serviceName, serving, wanted);
}

/** Rejects where a release is another deployment's. */
export function checkRelease(serviceName: string, found: Release | undefined, wanted: Wanted): void {
  if (found === undefined || !isWanted(found, wanted)) throw superseded(serviceName, found, wanted);
}

/** Two names of an image: the same digest, wherever it is pulled from, or else the same text. */
export function isSameImage(one: string, other: string): boolean {
  const [digest, second] = [one.split("@")[1], other.split("@")[1]];
  return digest !== undefined && second !== undefined ? digest === second : one === other;
}

/** The end of a deployment whose place was taken by another one. */
export function superseded(serviceName: string, found: Release | undefined, wanted?: Wanted): DeployError {
  const what = found === undefined ? "nothing" : nameOf(found);
  return new DeployError(
    "superseded",
    found === undefined
      ? `"${serviceName}" was removed while it was being deployed`
      : `Another deployment took the place of this one: "${serviceName}" has ${what}`,
    {
      ...(wanted ? { detail: `This deployment released ${wanted.image}` } : {}),
      outcome: "What the other deployment did was not touched, and nothing was recorded here",
      fix: "Look at what serves with svc deploy status, and deploy again if yours is to serve. In CI put all deployments of one target into one concurrency group",
    },
  );
}

function nameOf({ image, revision }: Release): string {
  return `image ${image ?? "(not known)"}${revision === undefined ? "" : `, revision ${revision}`}`;
}

function isWanted(found: Release, { image, env = {} }: Wanted): boolean {
  if (found.image !== undefined && !isSameImage(found.image, image)) return false;
  // The address is filled in by platforms that learn it late.
  return Object.entries(env).every(
    ([key, value]) => key === "SERVICE_PUBLIC_URL" || (found.env?.[key] ?? value) === value,
  );
}
