import type { Deployment } from "./deployment.ts";
import { type JobPlace, storeOf } from "./job-store.ts";
import { askOpenWork, type OpenWork } from "./open-work.ts";
import type { Release } from "./platform.ts";
import { valueFromCommand } from "./secret-command.ts";
import type { ConnectOptions } from "./service-client.ts";
import { detailsOf } from "./state.ts";
import { describePlace, leftStore, mustBeEmpty } from "./store-change.ts";

const API_KEY = "SERVICE_API_KEY";

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
  const work = await askLive(deployment, live);
  return !work.known && !work.rejected && (await isDown(deployment)) ? undefined : work;
}

/**
 * Why a service does not respond where this checkout knows it: its removal has started, and it was asked for jobs before that;
 * or it is the first release, which no run has seen healthy.
 */
async function isDown({ journal, state }: Deployment): Promise<boolean> {
  const { unfinished } = journal;
  const removal = unfinished.findIndex(({ step }) => step === "down");
  if (removal >= 0) return removal < unfinished.length - 1;
  return (await state.read())?.status !== "running" && journal.recall("deploy")?.data.previous === null;
}

/** Whether it is a first release that did not become healthy, so that nobody has started a job. */
export async function hasNeverServed({ state }: Pick<Deployment, "state">, live: Release): Promise<boolean> {
  if (live.neverServed) return true;
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

/** The API key that a command of the configuration prints, if there is one and it works. */
async function printedKey({ config, tools, target }: Deployment): Promise<string | undefined> {
  const command = config.secrets.find(({ name }) => name === API_KEY)?.command;
  if (command === undefined) return undefined;
  return valueFromCommand({ name: API_KEY, command }, tools, target.cwd).catch(() => undefined);
}

/**
 * How to call a running service: with the key that it accepted before in this run, those that are known here, and those in the
 * platform's vault, of which the running release may have an earlier one.
 */
export async function connectionTo(deployment: Deployment, live: Release): Promise<ConnectOptions> {
  const { config, session, tools, accepted } = deployment;
  const headers = await session.probeHeaders?.();
  const given = (name: string) => [
    () => tools.env[name],
    () => config.secrets.find((secret) => secret.name === name)?.value,
  ];
  const running = live.secrets?.[API_KEY];
  return {
    tools,
    url: live.url,
    prefix: live.env?.SERVICE_API_PREFIX,
    headers,
    keys: [
      () => accepted.key,
      ...given(API_KEY),
      async () => (running === undefined ? undefined : session.readSecret?.(API_KEY, running)),
      async () => session.readSecret?.(API_KEY),
      ...given("SERVICE_PREVIOUS_API_KEY"),
      () => printedKey(deployment),
    ],
    onAccepted(key) {
      accepted.key = key;
    },
  };
}
