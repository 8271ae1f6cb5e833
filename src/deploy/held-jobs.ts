import { messageOf } from "../core/base/error-text.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { warn } from "./events.ts";
import { connectionTo, hasNeverServed } from "./live-work.ts";
import type { Prepared } from "./plan.ts";
import type { Release } from "./platform.ts";
import { withService } from "./service-client.ts";

/** What a check of the open jobs of a live service found; or why it could not be made. */
export type JobCheck =
  | {
      readonly known: true;
      readonly jobs: number;
      /** A line for each job that would not continue under the new code. */
      readonly problems: readonly string[];
      /** A line for each job of which that is not known. */
      readonly unsure: readonly string[];
    }
  | { readonly known: false; readonly reason: string };

/** Gives open jobs, as the live service sends them, to the code that is to be deployed. */
export type CheckJobs = (jobs: AsyncIterable<Uint8Array>) => Promise<JobCheck>;

/** What may be accepted of open jobs: nothing; that they were not judged; that they are held. */
export const HELD_JOBS = ["stop", "unchecked", "ok"] as const;

/** Milliseconds in which a service sends its open jobs. */
const PATIENCE = 10 * 60_000;

/** The key, in the journal's line of a deployment, of the files for which the open jobs were checked. */
export const CHECKED_FOR = "checked_for";

/**
 * Rejects where open jobs would not continue under the new code, and where that is not known, unless it was accepted: then
 * it is only reported.
 */
export async function guardHeldJobs(
  deployment: Deployment,
  { live, imageCurrent, source }: Pick<Prepared, "live" | "imageCurrent" | "source">,
  check: CheckJobs | undefined,
): Promise<void> {
  const { emit, target, options, journal } = deployment;
  if (!check || live === undefined) return;
  // The code stays the same; what has never been up has no jobs.
  if (imageCurrent || (await hasNeverServed(deployment, live))) return;
  const { heldJobs = "stop" } = options;
  const found = await ask(deployment, live, check);
  if (!found.known) {
    // The run that is resumed has checked them, and may have stopped the service.
    if (journal.recall("deploy")?.data[CHECKED_FOR] === source) return;
    const message = `The open jobs of "${target.serviceName}" were not checked against the new code`;
    if (heldJobs !== "stop")
      return warn(emit, `${message}, as accepted by --held-jobs ${heldJobs}: ${found.reason}`);
    throw new DeployError("held_jobs", message, {
      detail: found.reason,
      outcome: "The service was not changed",
      fix: "Remove the cause (svc check shows the same), or add --held-jobs unchecked to have jobs held that do not fit",
      facts: { held_jobs: null, reason: found.reason },
    });
  }
  const { jobs, problems, unsure } = found;
  if (problems.length > 0) {
    const count = `${problems.length} of ${jobs} open jobs on "${target.serviceName}"`;
    if (heldJobs !== "ok")
      throw new DeployError("held_jobs", `${count} would not continue under the new code`, {
        detail: problems.slice(0, 20).join("\n"),
        outcome: "The service was not changed",
        fix: "Make the code fit them (svc check names the calls), or add --held-jobs ok to have them held until somebody decides",
        facts: { held_jobs: problems, unsure_jobs: unsure },
      });
    warn(emit, `${count} will not continue under the new code, as accepted by --held-jobs ok`);
  }
  if (unsure.length === 0) return;
  const count = `${unsure.length} of ${jobs} open jobs on "${target.serviceName}"`;
  if (heldJobs !== "stop")
    return warn(
      emit,
      `${count} could not be judged under the new code, as accepted by --held-jobs ${heldJobs}`,
    );
  throw new DeployError("held_jobs", `${count} could not be judged under the new code`, {
    detail: unsure.slice(0, 20).join("\n"),
    outcome: "The service was not changed",
    fix: "Repeat it once their running steps have ended, or add --held-jobs unchecked to have those held that do not fit",
    facts: { held_jobs: [], unsure_jobs: unsure },
  });
}

/** Asks the live service for its open jobs, and has them checked. */
async function ask(deployment: Deployment, live: Release, check: CheckJobs): Promise<JobCheck> {
  const { session } = deployment;
  if (session.openJobs) {
    return check(session.openJobs()).catch((error: unknown) => {
      if (deployment.tools.signal.aborted) throw error;
      return { known: false, reason: messageOf(error) };
    });
  }
  const blocked = await session.probeBlocked?.();
  if (blocked !== undefined) return { known: false, reason: blocked };
  return withService<JobCheck>(
    await connectionTo(deployment, live),
    async (service) => {
      const answer = await service.send("/utils/open-jobs", {}, PATIENCE);
      if (!answer?.body) return { known: false, reason: "its version does not send its open jobs" };
      return check(answer.body);
    },
    (reason) => ({ known: false, reason }),
  );
}
