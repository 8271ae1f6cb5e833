import type { DeploymentPlan, DeploymentResult, HealthCheckResult } from "../core/models/deployment.ts";
import type { Deployment } from "./deployment.ts";
import { findDocker } from "./docker.ts";
import { DeployError, isDeployError, toDeployError } from "./errors.ts";
import { step } from "./events.ts";
import { ignoreFolder, writeFiles } from "./files.ts";
import { publishImage } from "./image.ts";
import { liveWork } from "./live-work.ts";
import type { OpenWork } from "./open-work.ts";
import { guardOpenWork } from "./open-work.ts";
import type { Prepared } from "./plan.ts";
import { prepare } from "./plan.ts";
import type { Release, ReleaseSpec, SecretRef } from "./platform.ts";
import { endRecovery, recover } from "./recover.ts";
import { isWell, releaseHealth } from "./release-health.ts";
import { checkRelease, confirmServing } from "./serving.ts";
import { standing } from "./standing.ts";
import { detailsOf } from "./state.ts";
import { writeState } from "./write-state.ts";

export interface UpOutcome {
  readonly result: DeploymentResult;
  readonly plan: DeploymentPlan;
  readonly release: Release;
  readonly image: string;
  readonly health: HealthCheckResult;
  /** Keys made by this run, with their values for those who ask to see them. */
  readonly generated: Readonly<Record<string, string>>;
  readonly changed: boolean;
  /** What was open on the service that was replaced, where its files did not last. */
  readonly openWork: OpenWork | undefined;
}

/** Resolves with whether to go on; is asked once, with the plan in sight. */
export type Consent = (plan: DeploymentPlan) => Promise<boolean>;

/** Deploys: from the preflight to the recorded state. A run that was killed goes on where it stopped. */
export async function up(deployment: Deployment, consent: Consent): Promise<UpOutcome> {
  const { journal, emit, tools } = deployment;
  const begun = tools.now();
  const lock = await deployment.lock();
  if (lock.tookOver !== undefined)
    emit({
      type: "notice",
      level: "info",
      message: `Took over the lock of ${lock.tookOver}, which has ended`,
    });
  const resumed = journal.unfinished.length > 0;
  if (resumed)
    emit({
      type: "notice",
      level: "info",
      message: `Going on after a run that stopped. ${standing(journal)}`,
    });

  const prepared = await prepare(deployment);
  await endRecovery(deployment, { prepared, previous: previousOf(deployment, prepared) });
  // Said before consent: an image that cannot be built here must not surprise after it.
  if (!prepared.imageCurrent && !deployment.session.build) await findDocker(tools);
  guard(deployment, prepared.openWork);
  emit({ type: "plan", plan: prepared.plan });
  const idle = !prepared.changes && !resumed;
  if (!idle && !(await consent(prepared.plan)))
    throw new DeployError("declined", "Not deployed: the plan was declined", {
      outcome: "Nothing was changed",
    });

  try {
    const done = idle ? await confirmLive(deployment, prepared) : await deploy(deployment, prepared);
    const { release, health, image } = done;
    const seconds = (tools.now().getTime() - begun.getTime()) / 1000;
    return {
      plan: prepared.plan,
      release,
      image,
      health,
      changed: !idle,
      openWork: prepared.openWork,
      generated: Object.fromEntries(
        prepared.secrets.generated.map((name) => [name, prepared.secrets.values[name]?.value ?? ""]),
      ),
      result: {
        success: true,
        service_url: release.url ?? null,
        service_id: release.id,
        revision: release.revision ?? null,
        image_digest: image.split("@")[1] ?? null,
        status: release.status,
        health_status: health.status,
        deployment_time: Math.round(seconds * 10) / 10,
        error_message: null,
        error_details: null,
      },
    };
  } catch (error) {
    const failure = toDeployError(error, `"${deployment.target.serviceName}" was not deployed`);
    // There is nothing to go on with: what stands there now is somebody else's.
    if (failure.code === "superseded") journal.finish();
    throw failure.with({ outcome: standing(journal) });
  }
}

interface Done {
  readonly release: Release;
  readonly image: string;
  readonly health: HealthCheckResult;
}

/** Nothing is to be changed: only tells whether what runs is well. */
async function confirmLive(deployment: Deployment, { live, state, spec }: Prepared): Promise<Done> {
  if (live === undefined) throw new DeployError("not_deployed", "Nothing runs");
  const health = await releaseHealth(deployment, live, undefined, 60);
  if (!isWell(health))
    throw new DeployError("unhealthy", `"${deployment.target.serviceName}" is up to date and not healthy`, {
      detail: `${health.endpoint}: ${health.error_message}`,
      fix: "Look at its log with svc deploy logs",
    });
  await confirmServing(deployment, spec);
  if (state !== undefined)
    await deployment.state.write({
      ...state,
      health_status: health.status,
      provider_data: { ...state.provider_data, last_health: health },
    });
  return { release: live, image: live.image ?? spec.image, health };
}

async function deploy(deployment: Deployment, prepared: Prepared): Promise<Done> {
  const { session, emit, journal, target, options, tools } = deployment;
  const previous = previousOf(deployment, prepared);
  // The release to come back to is told before anything changes: a resumed run sees the new one in its place.
  await journal.record({ step: "deploy", data: { previous: previous ?? null } }, async () => undefined);

  await step(emit, "files", async ({ note }) => {
    const outcomes = await writeFiles(target.cwd, prepared.files, () => options.overwriteFiles);
    await ignoreFolder(target.cwd);
    const kept = outcomes.filter(({ outcome }) => outcome === "kept").map(({ file }) => file);
    if (kept.length > 0) note(`kept as you edited them: ${kept.join(", ")}`);
  });
  if (session.prepare) await step(emit, "prepare", () => session.prepare?.() ?? Promise.resolve());
  const image = await publishImage(deployment, prepared);
  const secrets = await storeSecrets(deployment, prepared);
  const spec: ReleaseSpec = { ...prepared.spec, image, secrets };

  const startedAt = releaseStart(deployment);
  const until = tools.now().getTime() + deployment.timeout * 1000;
  // The build took its time: a job may have begun meanwhile.
  if (prepared.openWork !== undefined)
    guard(deployment, await liveWork(deployment, await session.inspect(), "replaced"));
  await journal.record({ step: "release" }, async () => undefined);
  const recovery = { previous, prepared, image, endedBefore: journal.ended };
  let release: Release;
  try {
    release = await releaseSpec(deployment, spec);
  } catch (error) {
    return recover(deployment, error, recovery);
  }
  const isNew = release.revision === undefined || release.revision !== prepared.live?.revision;
  const remaining = Math.max(1, (until - tools.now().getTime()) / 1000);
  const health = await step(emit, "health", async ({ note }) => {
    const result = await releaseHealth(deployment, release, isNew ? startedAt : undefined, remaining);
    note(
      result.status_code !== null && isWell(result)
        ? `200, ${result.response_time} s`
        : (result.error_message ?? result.status),
    );
    return result;
  });
  if (!isWell(health)) {
    const at = release.probeUrl ?? release.url ?? target.serviceName;
    const error = new DeployError("unhealthy", `The new revision did not become healthy at ${at}`, {
      detail: health.error_message ?? health.status,
      log: await lastLogs(deployment),
    });
    return recover(deployment, error, { ...recovery, release, health });
  }
  if (release.noTraffic && session.promote) {
    const held = release;
    release = await step(emit, "traffic", () => session.promote?.(held) ?? Promise.resolve(held));
  }
  await confirmServing(deployment, spec);
  await step(emit, "state", () =>
    writeState(deployment, { prepared, release, image, health, status: "running", previous }),
  );
  journal.finish();
  return { release, image, health };
}

function guard({ target, options, journal, emit }: Deployment, work: OpenWork | undefined): void {
  const resumed = journal.recall("release") !== undefined;
  const { serviceName } = target;
  guardOpenWork(work, { serviceName, fate: "replaced", accepted: options.acceptDataLoss, resumed, emit });
}

/** Releases, and where the URL was not known before, once more with it. */
async function releaseSpec(deployment: Deployment, spec: ReleaseSpec): Promise<Release> {
  const { session, emit, limits, timeout, target } = deployment;
  const whenOver = () =>
    new DeployError("timed_out", `"${target.serviceName}" is still being rolled out after ${timeout} s`, {
      fix: "Run the same command again: it goes on waiting. --timeout gives it more time",
    });
  return limits.within(timeout, whenOver, async () => {
    const release = await step(emit, "release", async ({ note }) => {
      const made = await session.release(spec);
      checkRelease(target.serviceName, made, spec);
      note([made.revision, made.noTraffic ? "without traffic yet" : undefined].filter(Boolean).join(", "));
      return made;
    });
    const url = release.url;
    if (url === undefined || spec.publicUrl !== undefined) return release;
    return step(emit, "url", async ({ note }) => {
      note(url);
      const wanted = { ...spec, publicUrl: url, env: { ...spec.env, SERVICE_PUBLIC_URL: url } };
      const made = await session.release(wanted);
      checkRelease(target.serviceName, made, wanted);
      return made;
    });
  });
}

async function storeSecrets(
  deployment: Deployment,
  prepared: Prepared,
): Promise<Record<string, SecretRef | undefined>> {
  const { session, emit, journal } = deployment;
  const { secrets, spec } = prepared;
  const refs: Record<string, SecretRef | undefined> = { ...spec.secrets };
  await step(emit, "secrets", async ({ note, skip }) => {
    for (const name of secrets.changed) {
      const secret = secrets.values[name];
      if (secret === undefined) continue;
      // The hash in the journal tells a resumed run that this value is stored, also where the platform keeps no hash.
      const made = await journal.record({ step: `secret ${name}`, data: { hash: secret.hash } }, () =>
        session.putSecrets({ [name]: secret }),
      );
      refs[name] = made[name];
    }
    const count = Object.keys(refs).length;
    if (secrets.changed.length === 0) skip(count === 0 ? "there are none" : `${count} unchanged`);
    else note(secrets.changed.join(", "));
  });
  return refs;
}

/** When the release that is awaited began: in this run, or in the one that it goes on with. */
function releaseStart({ journal, tools }: Deployment): Date {
  const first = journal.recall("deploy");
  return first === undefined ? tools.now() : new Date(first.at);
}

function previousOf({ journal }: Deployment, { live, state }: Prepared): Release | undefined {
  const remembered = journal.recall("deploy");
  if (remembered !== undefined) return (remembered.data.previous as Release | null) ?? undefined;
  if (live === undefined) return undefined;
  const { release, previous } = detailsOf(state);
  // A failed release that was kept is none to come back to.
  if (state?.status === "failed" && release?.revision === live.revision) return previous?.[0];
  // What the state knows of the running release (what rollback needs) may be more than the platform tells.
  return release !== undefined && release.revision === live.revision ? { ...release, ...live } : live;
}

/** The service's own last words, where the platform has them; never a reason to fail. */
async function lastLogs({ session, tools, limits }: Deployment): Promise<string[]> {
  if (!session.logs) return [];
  const lines: string[] = [];
  try {
    await limits.within(
      15,
      () => new DeployError("failed", "no logs"),
      async () => {
        const since = new Date(tools.now().getTime() - 15 * 60_000);
        for await (const line of session.logs?.({ since, follow: false }) ?? []) {
          lines.push(line);
          if (lines.length > 20) lines.shift();
        }
      },
    );
  } catch (error) {
    if (isDeployError(error) && error.code === "interrupted") throw error;
  }
  return lines;
}
