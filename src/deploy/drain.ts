import { type Duration, toMilliseconds } from "../core/base/duration.ts";
import type { Deployment } from "./deployment.ts";
import { step, warn } from "./events.ts";
import { connectionTo } from "./live-work.ts";
import type { Release } from "./platform.ts";
import { type ServiceClient, withService } from "./service-client.ts";

/** Seconds that a drain lasts unless it is renewed: if this process dies, new jobs do not wait longer. */
const LEASE = 60;
/** Milliseconds between two questions what still runs. */
const EVERY = 5_000;
const RENEWED_EVERY = 15_000;

/**
 * Lets the running service start no new jobs until those that run have ended, or the time is over. They wait
 * in line, and whatever still runs continues in the next release. The result ends the drain: jobs start again.
 */
export async function drain(
  deployment: Deployment,
  live: Release | undefined,
  time: string | undefined,
): Promise<() => Promise<void>> {
  const { emit, tools } = deployment;
  if (time === undefined || live === undefined) return async () => undefined;
  const limit = toMilliseconds(time as Duration);
  const end = tools.now().getTime() + limit;
  let renewing: NodeJS.Timeout | undefined;
  const renew = () =>
    call(deployment, live, async (service) => {
      await post(service, LEASE);
      return undefined;
    }).catch(() => undefined);
  await step(emit, "drain", async ({ note, skip }) => {
    const problem = await call(deployment, live, async (service) => {
      for (let shown = -1; ; ) {
        const running = await post(service, LEASE);
        if (running === undefined) return "its version cannot drain";
        renewing ??= setInterval(() => void renew(), RENEWED_EVERY).unref();
        const left = end - tools.now().getTime();
        if (running === 0 || left <= 0) {
          note(
            running === 0
              ? "no job runs"
              : `${running} still ${running === 1 ? "runs and continues" : "run and continue"} in the next release`,
          );
          return undefined;
        }
        if (running !== shown)
          tools.report(`waiting for ${running} ${running === 1 ? "job" : "jobs"} to end`);
        shown = running;
        await tools.sleep(Math.min(EVERY, left));
      }
    });
    if (problem === undefined) return;
    // What does not respond, or is of an earlier version, must be replaceable too.
    skip(problem);
    warn(emit, `The running service was not drained (${problem}): its jobs continue in the next release`);
  }).catch((error: unknown) => {
    clearInterval(renewing);
    throw error;
  });
  return async () => {
    clearInterval(renewing);
    if (renewing === undefined) return;
    const problem = await call(deployment, live, async (service) => {
      await post(service, 0);
      return undefined;
    });
    if (problem !== undefined)
      warn(
        emit,
        `New jobs start again within ${LEASE} s: the end of the drain could not be sent (${problem})`,
      );
  };
}

/** Calls the running service; resolves with why it could not be called, or with what the call says. */
async function call(
  deployment: Deployment,
  live: Release,
  use: (service: ServiceClient) => Promise<string | undefined>,
): Promise<string | undefined> {
  const blocked = await deployment.session.probeBlocked?.();
  if (blocked !== undefined) return blocked;
  const connection = await connectionTo(deployment, live);
  return withService(connection, use, (reason): string | undefined => reason);
}

/** Drains for so many seconds; resolves with how many jobs run, undefined where the service cannot. */
async function post(service: ServiceClient, seconds: number): Promise<number | undefined> {
  const answer = await service.send("/utils/drain", { method: "POST", json: { seconds } });
  if (answer === undefined) return undefined;
  const { running } = (await answer.json()) as { running: number };
  return running;
}
