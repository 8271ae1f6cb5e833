import type { HealthCheckResult } from "../core/models/deployment.ts";
import type { Deployment } from "./deployment.ts";
import { drain } from "./drain.ts";
import { DeployError, toDeployError } from "./errors.ts";
import { step, warn } from "./events.ts";
import { placeOf } from "./job-store.ts";
import { fateOf, liveWork } from "./live-work.ts";
import { requireDeployed } from "./not-deployed.ts";
import { guardOpenWork, type OpenWork } from "./open-work.ts";
import type { Release } from "./platform.ts";
import { isWell, releaseHealth } from "./release-health.ts";
import { confirmServing } from "./serving.ts";
import { standing } from "./standing.ts";
import { detailsOf } from "./state.ts";
import { leftBehind } from "./store-change.ts";

export interface RollbackOutcome {
  readonly from: Release;
  /** The earlier release; where a platform makes another revision of it, `release` is that one. */
  readonly to: Release;
  readonly release: Release;
  readonly health: HealthCheckResult;
  /** Jobs that were open on the replaced service, if its files were not persistent. */
  readonly openWork: OpenWork | undefined;
}

/** Rolls back to the previous release, or to a named revision. */
export async function rollback(
  deployment: Deployment,
  options: {
    readonly to: string | undefined;
    /** Time for the running service to end its jobs before it is replaced, such as `10m`. @default not at all */
    readonly drain?: string | undefined;
    readonly consent: (from: Release, to: Release) => Promise<boolean>;
  },
): Promise<RollbackOutcome> {
  const { session, emit, target, journal, limits, timeout, state } = deployment;
  const lock = await deployment.lock();
  const { live, candidates } = await step(emit, "inspect", async ({ note }) => {
    const live = await requireDeployed(deployment, "there is nothing to roll back");
    const candidates = await earlierReleases(deployment, live);
    note(`${nameOf(live)}, ${candidates.length} to roll back to`);
    return { live, candidates };
  });
  // After a killed run the target revision may already be serving: the killed run's goal counts.
  const begun = begunRollback(deployment, options.to);
  // What serves may be the result of a rollback that was killed elsewhere: nobody knows what that one began from.
  const interrupted = lock.tookOver === undefined ? lock.interrupted : undefined;
  const unknown = begun === undefined && interrupted?.includes("svc deploy rollback");
  if (unknown && options.to === undefined)
    throw new DeployError("usage", `A rollback was interrupted: that of ${interrupted}`, {
      detail: `${nameOf(live)} is serving, which may be its result`,
      outcome: "Nothing was changed",
      fix: `Name what should serve: --to ${[live, ...candidates].map(({ revision }) => revision).join(", ")}`,
    });
  const { from, to } = begun ?? {
    from: live,
    to: choose(unknown ? [...candidates, live] : candidates, live, options.to),
  };
  // Not every platform says what an earlier release has as secrets.
  if (to.secretNames) for (const { message, fix } of leftBehind(placeOf(to), live)) warn(emit, message, fix);
  const next = to.secretNames ? placeOf(to) : placeOf(live);
  // After a killed run the release to go back to may serve already: it is not replaced.
  const isBack = live.revision !== undefined && live.revision === to.revision;
  const openWork = isBack ? undefined : await liveWork(deployment, live, next);
  guardOpenWork(openWork, {
    serviceName: target.serviceName,
    fate: fateOf(deployment, live, next),
    accepted: deployment.options.acceptDataLoss,
    emit,
  });
  if (!(await options.consent(from, to)))
    throw new DeployError("declined", "Not rolled back", { outcome: "Nothing was changed" });

  const whenOver = () =>
    new DeployError("timed_out", `The rollback is still in progress after ${timeout} s`, {
      fix: "Run the same command again: it continues to wait",
    });
  const endDrain = isBack ? undefined : await drain(deployment, live, options.drain);
  try {
    await journal.record({ step: "rollback", data: { from, to } }, async () => undefined);
    const release = await limits.within(timeout, whenOver, () =>
      step(emit, "rollback", async ({ note }) => {
        const back = await session.rollback(to);
        note(`revision ${back.revision}`);
        return back;
      }),
    );
    const health = await step(emit, "health", () => releaseHealth(deployment, release, undefined, timeout));
    if (to.image !== undefined) await confirmServing(deployment, { image: to.image, env: to.env });
    await record(deployment, { from, release, health, before: await state.read() });
    journal.finish();
    if (!isWell(health))
      throw new DeployError("unhealthy", `Revision ${release.revision} is serving again and is not healthy`, {
        detail: health.error_message ?? health.status,
        fix: "Roll back further with svc deploy rollback --to <revision>",
      });
    return { from, to, release, health, openWork };
  } catch (error) {
    const failure = toDeployError(error, `"${target.serviceName}" was not rolled back`);
    if (failure.code === "superseded") journal.finish();
    throw failure.with({ outcome: standing(journal) });
  } finally {
    await endDrain?.();
  }
}

/**
 * Releases that a rollback can go to, as reported by the platform, else as recorded locally: those before the serving one,
 * newest first, then those after it, which a rollback or a failed health check has taken out of service.
 */
export async function earlierReleases(
  { session, state }: Deployment,
  live: Release,
): Promise<readonly Release[]> {
  const listed = (await session.history?.()) ?? [];
  const known = detailsOf(await state.read()).previous ?? [];
  const all = listed.length > 0 ? listed : known;
  const at = all.findIndex(({ revision }) => revision === live.revision);
  return at < 0 ? all : [...all.slice(at + 1), ...all.slice(0, at)];
}

/** Source and target of a killed rollback, unless another target is requested now. */
function begunRollback(
  { journal }: Deployment,
  wanted: string | undefined,
): { from: Release; to: Release } | undefined {
  const data = journal.recall("rollback")?.data as { from: Release; to: Release } | undefined;
  return wanted === undefined || wanted === data?.to.revision ? data : undefined;
}

function choose(candidates: readonly Release[], live: Release, wanted: string | undefined): Release {
  const names = candidates.map((release) => release.revision).join(", ");
  if (wanted === undefined) {
    const [newest] = candidates;
    if (newest !== undefined) return newest;
    throw new DeployError("not_deployed", `There is no release before ${nameOf(live)}`, {
      fix: "Deploy the version you want with svc deploy up",
    });
  }
  const found = candidates.find((release) => release.revision === wanted);
  if (found !== undefined) return found;
  throw new DeployError("usage", `--to ${wanted}: no such revision`, {
    fix: names === "" ? "There is none to roll back to" : `Choose one of ${names}`,
  });
}

/** What is serving, as reported by the platform. */
function nameOf({ revision, image, id }: Release): string {
  return revision === undefined ? (image ?? id) : `revision ${revision}`;
}

async function record(
  { state, tools, target, platform }: Deployment,
  change: {
    readonly from: Release;
    readonly release: Release;
    readonly health: HealthCheckResult;
    readonly before: Awaited<ReturnType<Deployment["state"]["read"]>>;
  },
): Promise<void> {
  const { from, release, health, before } = change;
  const now = tools.now().toISOString();
  const details = detailsOf(before);
  const earlier = [from, ...(details.previous ?? [])].filter((one) => one.revision !== release.revision);
  await state.write({
    version: 2,
    service_name: target.serviceName,
    platform: platform.name,
    environment: target.environment,
    region: target.region,
    project_id: target.projectId ?? null,
    image_tag: before?.image_tag ?? "",
    image_digest: release.image?.split("@")[1] ?? null,
    service_url: release.url ?? null,
    revision: release.revision ?? null,
    created_at: before?.created_at ?? now,
    updated_at: now,
    status: "running",
    health_status: health.status,
    port: before?.port ?? target.port,
    api_key_generated: before?.api_key_generated ?? false,
    rsa_key_generated: before?.rsa_key_generated ?? false,
    provider_data: {
      release,
      previous: earlier,
      // The serving image was built from different files than those recorded last.
      secret_hashes: details.secret_hashes ?? {},
      pinned: true,
      last_health: health,
    },
  });
}
