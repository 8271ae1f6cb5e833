import { isDeepStrictEqual } from "node:util";
import type { DigitalOceanState, Json, SpecJson, StoredApp, StoredDeployment } from "./state.ts";
import { newId } from "./state.ts";

/** Starts a deployment; it replaces one that is still in progress. */
export function deploy(
  state: DigitalOceanState,
  app: StoredApp,
  cause: string,
  spec = app.spec,
  clonedFrom?: string,
): StoredDeployment {
  const running = app.deployments[0];
  if (running && isGoingOn(running)) running.phase = "SUPERSEDED";
  const deployment: StoredDeployment = {
    id: newId(state),
    phase: "PENDING_DEPLOY",
    cause,
    spec: structuredClone(spec),
    reads: 4,
    ...(clonedFrom === undefined ? {} : { clonedFrom }),
  };
  app.deployments.unshift(deployment);
  return deployment;
}

export function isGoingOn({ phase }: StoredDeployment): boolean {
  return phase === "PENDING_DEPLOY" || phase === "DEPLOYING";
}

/** Advances what is in progress by one read. */
export async function tick(state: DigitalOceanState, app: StoredApp): Promise<void> {
  const newest = app.deployments[0];
  if (!newest || !isGoingOn(newest)) return;
  newest.reads -= 1;
  if (newest.reads > 2) return;
  newest.phase = "DEPLOYING";
  if (newest.reads > 0) return;
  await finish(state, app, newest);
}

async function finish(state: DigitalOceanState, app: StoredApp, deployment: StoredDeployment): Promise<void> {
  const service = deployment.spec.services?.[0];
  const { repository, digest, tag } = service?.image ?? {};
  const image = `registry.digitalocean.com/${state.registries[0]?.name}/${repository}${digest ? `@${digest}` : `:${tag}`}`;
  const env = Object.fromEntries(
    (service?.envs ?? []).map(({ key, value = "" }) => [
      key,
      (state.vault.get(value) ?? value).replaceAll("$" + "{APP_URL}", urlOf(app)),
    ]),
  );
  try {
    if (!deployment.spec.maintenance?.archive) deployment.instance = await state.images.start(image, env);
    deployment.phase = "ACTIVE";
    const before = app.active;
    app.active = deployment;
    if (before) before.phase = "SUPERSEDED";
    await before?.instance?.stop();
  } catch {
    deployment.phase = "ERROR";
    deployment.reason = {
      code: "DeployContainerExitNonZero",
      message: "Your container exited with a non-zero exit code.",
    };
    if (state.switches.autoRollback && app.active) {
      app.spec = structuredClone(app.active.spec);
      deploy(state, app, "AUTO_ROLLBACK", app.active.spec, app.active.id);
    }
  }
}

export function urlOf(app: StoredApp): string {
  return `https://${app.spec.name}-x1y2z.ondigitalocean.app`;
}

/** The primary domain, from the moment that it is configured. */
function liveUrl(app: StoredApp): string {
  const primary = app.spec.domains?.find(({ type }) => type === "PRIMARY");
  return primary === undefined ? urlOf(app) : `https://${primary.domain}`;
}

export function appJson(app: StoredApp): Json {
  const [newest] = app.deployments;
  const { active } = app;
  return {
    id: app.id,
    owner_uuid: "00000000-0000-4000-8000-00000000acc0",
    spec: structuredClone(app.spec),
    created_at: "2026-01-01T00:00:00Z",
    updated_at: "2026-01-01T00:00:00Z",
    ...(active
      ? { active_deployment: deploymentJson(active), default_ingress: urlOf(app), live_url: liveUrl(app) }
      : {}),
    domains: (app.spec.domains ?? []).map((spec) => ({
      id: `domain-${spec.domain}`,
      spec,
      phase: app.reached?.has(spec.domain) ? "ACTIVE" : "PENDING",
    })),
    ...(newest?.phase === "PENDING_DEPLOY" ? { pending_deployment: deploymentJson(newest) } : {}),
    ...(newest?.phase === "DEPLOYING" ? { in_progress_deployment: deploymentJson(newest) } : {}),
    ...(app.pinned && active ? { pinned_deployment: deploymentJson(active) } : {}),
  };
}

export function deploymentJson(deployment: StoredDeployment): Json {
  const { id, phase, cause, spec, reason, clonedFrom } = deployment;
  const status = phase === "ERROR" ? "ERROR" : phase === "ACTIVE" ? "SUCCESS" : "RUNNING";
  return {
    id,
    phase,
    cause,
    spec: structuredClone(spec),
    created_at: "2026-01-01T00:00:00Z",
    ...(clonedFrom === undefined ? {} : { cloned_from: clonedFrom }),
    progress: {
      error_steps: phase === "ERROR" ? 1 : 0,
      steps: [{ name: "deploy", status, steps: [{ name: "wait", status, ...(reason ? { reason } : {}) }] }],
    },
  };
}

/** The spec as it is kept: defaults filled in, secrets encrypted once and left alone when they come back. */
export function normalised(state: DigitalOceanState, spec: SpecJson): SpecJson {
  const services = (spec.services ?? []).map((service) => ({
    instance_size_slug: "apps-s-1vcpu-0.5gb",
    ...(service.autoscaling ? {} : { instance_count: 1 }),
    http_port: 8080,
    ...service,
    envs: (service.envs ?? []).map((env) => {
      if (env.type !== "SECRET" || /^EV\[1:.+\]$/.test(env.value ?? ""))
        return { scope: "RUN_AND_BUILD_TIME", ...env };
      const text = `EV[1:${state.next()}:${Buffer.from(String(state.next())).toString("base64")}]`;
      state.vault.set(text, env.value ?? "");
      return { scope: "RUN_AND_BUILD_TIME", ...env, value: text };
    }),
  }));
  return { ...spec, region: spec.region ?? "nyc", services };
}

export function isSameSpec(a: SpecJson, b: SpecJson): boolean {
  return isDeepStrictEqual(a, b);
}
