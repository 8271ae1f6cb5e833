import type { Deployment } from "./deployment.ts";
import { type JobPlace, storeOf } from "./job-store.ts";
import type { OpenWork } from "./open-work.ts";
import { askOpenWork } from "./open-work.ts";
import type { Release } from "./platform.ts";
import type { ConnectOptions } from "./service-client.ts";
import { detailsOf } from "./state.ts";
import { describePlace, leftStore, mustBeEmpty } from "./store-change.ts";

/**
 * Asks the running service for its open work, if that could be lost, or would stay in a store that the next release does
 * not use. Undefined if neither is the case, or if it never started.
 */
export async function liveWork(
  deployment: Deployment,
  live: Release | undefined,
  next: JobPlace | "removed",
): Promise<OpenWork | undefined> {
  if (live === undefined) return undefined;
  if (!losesFiles(deployment, live, next) && !isLeft(live, next)) return undefined;
  if (await hasNeverServed(deployment, live)) return undefined;
  return askLive(deployment, live);
}

/** Whether it is a first release that did not become healthy, so that nobody has started a job. */
export async function hasNeverServed({ state }: Pick<Deployment, "state">, live: Release): Promise<boolean> {
  const recorded = await state.read();
  const { release, previous } = detailsOf(recorded);
  return recorded?.status === "failed" && release?.revision === live.revision && previous?.length === 0;
}

/** What becomes of jobs that are open when the service is replaced, as text. */
export function fateOf(deployment: Deployment, live: Release | undefined, next: JobPlace): string {
  const from = leftStore(live, next);
  if (from === undefined || live === undefined || losesFiles(deployment, live, next))
    return "its files are deleted when it is replaced";
  return `they stay in ${describePlace(from)}, which the next release does not use`;
}

function isLeft(live: Release, next: JobPlace | "removed"): boolean {
  if (next === "removed") return false;
  const from = leftStore(live, next);
  return from !== undefined && mustBeEmpty(from, next);
}

function losesFiles(
  { config, platform, session }: Deployment,
  live: Release,
  next: JobPlace | "removed",
): boolean {
  // The new release may store its jobs elsewhere than the running one: the running one's jobs could be lost.
  const store = live.env === undefined ? (config.store ?? "file") : storeOf(live);
  return store === "file" && !(next === "removed" ? session.keepsFiles : !platform.ephemeralDisk);
}

/** Asks a running service for its open work. */
export async function askLive(deployment: Deployment, live: Release): Promise<OpenWork> {
  const blocked = await deployment.session.probeBlocked?.();
  if (blocked !== undefined) return { known: false, reason: blocked };
  return askOpenWork(await connectionTo(deployment, live));
}

/** How to call a running service: with the keys that are known here or in the platform's vault. */
export async function connectionTo(
  { config, session, tools }: Deployment,
  live: Release,
): Promise<ConnectOptions> {
  const headers = await session.probeHeaders?.();
  return {
    tools,
    url: live.url,
    prefix: live.env?.SERVICE_API_PREFIX,
    headers,
    keys: [
      () => tools.env.SERVICE_API_KEY,
      () => config.secrets.find(({ name }) => name === "SERVICE_API_KEY")?.value,
      async () => session.readSecret?.("SERVICE_API_KEY"),
    ],
  };
}
