import { createHash } from "node:crypto";
import type { HealthCheckResult } from "../core/models/deployment.ts";
import type { Deployment } from "./deployment.ts";
import { DeployError, type DeployErrorCode, toDeployError } from "./errors.ts";
import { inform, step } from "./events.ts";
import type { Prepared } from "./plan.ts";
import type { Release } from "./platform.ts";
import { isWell, releaseHealth } from "./release-health.ts";
import { isSameImage, superseded } from "./serving.ts";
import { writeState } from "./write-state.ts";

export interface Failed {
  readonly previous: Release | undefined;
  readonly prepared: Prepared;
  readonly image: string;
  /** Calls that had finished before the release: one more means that something has changed. */
  readonly endedBefore: number;
  /** The new release, if one was created. */
  readonly release?: Release;
  readonly health?: HealthCheckResult;
}

/** A run that stopped with these errors is resumed later: changes may still be in progress. */
const GOING_ON: readonly DeployErrorCode[] = ["timed_out", "interrupted", "unreachable", "login_expired"];

/** Name of the journal entry that records a rollback in progress. */
const RECOVERY = "recover";

/** After a failed release: rolls back to the previous one, unless disabled. Always rejects. */
export async function recover(deployment: Deployment, cause: unknown, failed: Failed): Promise<never> {
  const { session, journal, target, options } = deployment;
  const { previous, release } = failed;
  const error = toDeployError(cause, `The release of "${target.serviceName}" failed`);
  if (GOING_ON.includes(error.code)) {
    await record(deployment, failed, "deploying");
    throw error;
  }
  if (error.code === "superseded") throw error;
  if (error.code === "rolled_back") {
    await record(deployment, failed, "running", previous);
    journal.finish();
    throw error;
  }

  const live = await session.inspect().catch(() => undefined);
  // Rolling back now would remove another deployment's release.
  if (live?.image !== undefined && isForeign(live.image, failed))
    throw superseded(target.serviceName, live, failed);
  const changed =
    release !== undefined ||
    journal.ended > failed.endedBefore ||
    isReleaseBegun(journal) ||
    live?.revision !== previous?.revision;
  if (!changed) {
    journal.finish();
    throw error.with({
      outcome: previous
        ? `Nothing was released: ${nameOf(previous)} is still serving`
        : "Nothing was released",
    });
  }
  if (!options.rollback) {
    // A release that never served has not affected users, so it is not a previous release.
    if (release === undefined && live !== undefined && live.revision === previous?.revision) {
      await record(deployment, failed, "running", previous);
      journal.finish();
      throw error.with({
        outcome: `${nameOf(live)} is still serving; the failed revision is kept because of --no-rollback`,
        fix: "Fix the cause and deploy again",
      });
    }
    await record(deployment, failed, "failed", release ?? live);
    journal.finish();
    throw error.with({
      outcome: `The failed revision ${live?.revision ?? ""} is kept because of --no-rollback`.replace(
        "  ",
        " ",
      ),
      fix: "Inspect it with svc deploy logs, or roll back with svc deploy rollback",
    });
  }
  if (previous === undefined) {
    // The cause is reported also where this fails.
    const isStopped = (await session.stopFailed?.().catch(() => false)) === true;
    await record(deployment, failed, "failed", release ?? live);
    journal.finish();
    throw error.with({
      outcome: `It is the first release of this service, so there is none to roll back to; the failed one is ${
        isStopped ? "stopped, and kept with its log" : "left in place"
      }`,
      fix: "Fix the cause (svc deploy logs) and deploy again, or remove it with svc deploy down",
    });
  }

  const { message, detail } = error;
  const data = { goal: goalOf(deployment, failed.prepared), image: failed.image, message, detail };
  // A run that is killed from here on must not shift traffic to the failed release again.
  await journal.record({ step: RECOVERY, data }, async () => undefined);
  return rollBack(deployment, error, failed, previous);
}

/**
 * Finishes the rollback that a killed run had started, and rejects as that run would have. Resolves if none
 * had started, and if something else is to be deployed now: a fixed release replaces the failed one without a
 * rollback first.
 */
export async function endRecovery(
  deployment: Deployment,
  { prepared, previous }: Pick<Failed, "prepared" | "previous">,
): Promise<void> {
  const { journal, emit } = deployment;
  const begun = journal.recall(RECOVERY)?.data as
    | { goal: string; image: string; message: string; detail?: string }
    | undefined;
  if (begun === undefined || previous === undefined) return;
  if (begun.goal !== goalOf(deployment, prepared) || prepared.secrets.changed.length > 0) return;
  inform(emit, "The previous run was rolling back to the previous release: that rollback is finished first");
  const failed = { previous, prepared, image: begun.image, endedBefore: 0 };
  await rollBack(
    deployment,
    new DeployError("unhealthy", begun.message, { detail: begun.detail }),
    failed,
    previous,
  );
}

async function rollBack(
  deployment: Deployment,
  error: DeployError,
  failed: Failed,
  previous: Release,
): Promise<never> {
  const { session, journal, emit } = deployment;
  const { restored, health } = await step(emit, "rollback", async ({ note }) => {
    const restored = await session.rollback(previous);
    const health = await releaseHealth(deployment, restored, undefined, deployment.timeout);
    note(`${nameOf(restored)} is serving again, ${health.status}`);
    return { restored, health };
  });
  await record(deployment, failed, "running", restored);
  journal.finish();
  const well = isWell(health);
  throw new DeployError("rolled_back", error.message, {
    detail: error.detail,
    log: error.log,
    outcome: well
      ? `Rolled back: ${nameOf(previous)} is serving again`
      : `Rolled back to ${nameOf(previous)}, which is not healthy: ${health.error_message ?? health.status}`,
    fix:
      error.fix ??
      "Fix the cause and deploy again; --no-rollback keeps a failed revision so that you can inspect it",
    cause: error,
  });
}

/** What is to be deployed, without its secrets: used to detect whether it is what failed. */
function goalOf({ target }: Deployment, { context, spec }: Prepared): string {
  const goal = JSON.stringify([context.hash, spec.env, target.flags]);
  return createHash("sha256").update(goal).digest("hex");
}

function isForeign(image: string, failed: Failed): boolean {
  const known = [failed.image, failed.previous?.image, failed.prepared.live?.image];
  return !known.some((one) => one !== undefined && isSameImage(one, image));
}

/** Whether the run that this one resumes had started to change the service before it was killed. */
function isReleaseBegun({ unfinished }: Deployment["journal"]): boolean {
  const mark = unfinished.findIndex(({ step }) => step === "release");
  return mark >= 0 && mark < unfinished.length - 1;
}

async function record(
  deployment: Deployment,
  { prepared, image, health, previous }: Failed,
  status: string,
  release?: Release,
): Promise<void> {
  await writeState(deployment, {
    prepared,
    image,
    status,
    previous,
    release: release ?? previous,
    health,
    failed: true,
  });
}

function nameOf({ revision, image, id }: Release): string {
  return revision !== undefined ? `revision ${revision}` : (image ?? id);
}
