import { hostname } from "node:os";
import { parseJson } from "../core/base/parse-json.ts";
import { DeployError } from "./errors.ts";
import { ageOf, isRunning } from "./lock.ts";
import { LEASE } from "./lock-keeper.ts";
import type { LockHolder, LockRequest, PlatformSession } from "./platform.ts";
import type { DeployTools } from "./tools.ts";

/** Where a platform keeps the lock of a target: one text, which only one of several callers can create. */
export interface LockPlace {
  /** Creates it with this text; false if it exists. */
  create(text: string): Promise<boolean>;
  /** The text, and what tells this lock from a later one; undefined if there is none. */
  read(): Promise<{ readonly text: string; readonly version: string } | undefined>;
  /**
   * Removes the lock with this version; nothing happens if it is another one by now, or gone. One's own is removed by
   * nobody else as long as its time lasts.
   */
  remove(version: string, isOwn: boolean): Promise<void>;
  /** Replaces the text of the lock with this version; false if it is another one by now, or gone. */
  renew(version: string, text: string): Promise<boolean>;
}

interface Held extends LockHolder {
  readonly pid: number;
  readonly host: string;
  /** From then on it counts as left behind, whatever `alive` says. */
  readonly until: string;
  /** When the lock of a run that renews it counts as left behind: soon after its last sign of life. Earlier versions read `until` alone. */
  readonly alive?: string;
}

/**
 * Milliseconds after the last renewal from which others may take the lock over: its holder stops `LEASE` after it, and the clocks
 * of two machines may differ by the rest, which AWS does not accept in a request either.
 */
const LEFT = LEASE + 5 * 60_000;

/** More tries than others can have left locks behind. */
const TRIES = 4;

/**
 * Takes the lock of a target for all machines; resolves with how to release it. A lock that is over its time, or
 * whose process on this machine has ended, is taken over, as is every lock with `breakLock`. Otherwise it rejects with
 * `DeployError` "locked", which names the holder.
 */
export async function takeRemoteLock(
  place: LockPlace,
  holder: LockHolder,
  { seconds, breakLock, onTakeOver, onLease }: LockRequest,
  tools: Pick<DeployTools, "now" | "report" | "env">,
): Promise<() => Promise<void>> {
  const after = (milliseconds: number) => new Date(tools.now().getTime() + milliseconds).toISOString();
  const mine: Held = { ...holder, pid: process.pid, host: hostname(), until: after(seconds * 1000) };
  const textNow = () => JSON.stringify(onLease ? { ...mine, alive: after(LEFT) } : mine);
  const renew = async () => {
    const found = await place.read();
    if (found === undefined || parse(found.text)?.id !== holder.id) return false;
    return place.renew(found.version, textNow());
  };
  const release = async () => {
    const found = await place.read();
    if (found !== undefined && parse(found.text)?.id === holder.id) await place.remove(found.version, true);
  };
  for (let tries = 0; tries < TRIES; tries++) {
    if (await place.create(textNow())) {
      onLease?.(renew);
      return release;
    }
    const found = await place.read();
    if (found === undefined) continue;
    const held = parse(found.text);
    // The answer to our own call was lost.
    if (held?.id === holder.id) {
      onLease?.(renew);
      return release;
    }
    if (!breakLock && !isLeft(held, tools.now())) throw locked(held, tools.now());
    await place.remove(found.version, false);
    if (held !== undefined) onTakeOver?.(held.holder);
    tools.report(
      `took over the lock of ${held?.holder ?? "an unknown run"}, held since ${held?.since ?? "?"}`,
    );
  }
  throw locked(undefined, tools.now());
}

/** The lock of a target for all machines. Where the caller may not use it, commands say so and run: their checks name what is missing. */
export function remoteLock(
  place: LockPlace,
  tools: Pick<DeployTools, "now" | "report" | "env">,
  isDenied: (error: unknown) => error is Error,
): Required<Pick<PlatformSession, "lock" | "lockedBy">> {
  return {
    async lock(holder, request) {
      try {
        return await takeRemoteLock(place, holder, request, tools);
      } catch (error) {
        if (!isDenied(error)) throw error;
        tools.report(`the target is not locked for other machines: ${error.message}`);
        return async () => undefined;
      }
    },
    async lockedBy() {
      try {
        return await readRemoteLock(place, tools);
      } catch (error) {
        if (isDenied(error)) return undefined;
        throw error;
      }
    },
  };
}

/** Who holds the lock of a target; nobody where it is over its time. */
export async function readRemoteLock(
  place: LockPlace,
  { now }: Pick<DeployTools, "now">,
): Promise<LockHolder | undefined> {
  const found = await place.read();
  const held = found && parse(found.text);
  if (held === undefined || isLeft(held, now())) return undefined;
  return { id: held.id, holder: held.holder, since: held.since };
}

/** Who deploys, for people: the job of a pipeline, where its variables say so. */
export function pipelineOf(env: Readonly<Record<string, string | undefined>>): string | undefined {
  if (env.GITHUB_ACTIONS && env.GITHUB_REPOSITORY)
    return `GitHub ${env.GITHUB_REPOSITORY}, run ${env.GITHUB_RUN_ID ?? "?"}${env.GITHUB_ACTOR ? ` of ${env.GITHUB_ACTOR}` : ""}`;
  if (env.GITLAB_CI && env.CI_PROJECT_PATH)
    return `GitLab ${env.CI_PROJECT_PATH}, job ${env.CI_JOB_ID ?? "?"}${env.GITLAB_USER_LOGIN ? ` of ${env.GITLAB_USER_LOGIN}` : ""}`;
  return undefined;
}

function parse(text: string): Held | undefined {
  return parseJson(text) as Held | undefined;
}

function isLeft(held: Held | undefined, now: Date): boolean {
  if (held === undefined) return false;
  if (held.host === hostname() && !isRunning(held.pid)) return true;
  return new Date(endOf(held)).getTime() <= now.getTime();
}

/** When a lock ends that is not renewed again. */
function endOf({ until, alive }: Held): string {
  return alive !== undefined && alive < until ? alive : until;
}

function locked(held: Held | undefined, now: Date): DeployError {
  return new DeployError(
    "locked",
    `Another deployment of this target is in progress: ${held?.holder ?? "unknown holder"}`,
    {
      ...(held
        ? {
            detail: `It has held the lock since ${held.since}, for ${ageOf(new Date(held.since), now)}. The lock of a dead run ends by itself at ${endOf(held)}`,
          }
        : {}),
      outcome: "Nothing was changed",
      fix: "Wait for it to finish and run the command again. If that run is dead, add --break-lock",
    },
  );
}
