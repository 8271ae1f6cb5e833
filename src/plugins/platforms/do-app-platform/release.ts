import { isDeepStrictEqual } from "node:util";
import { CONTEXT } from "../../../deploy/config.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { superseded } from "../../../deploy/serving.ts";
import { noLonger } from "../cloud/findings.ts";
import { ownService, wantedAppSpec } from "./app-spec.ts";
import type { App, AppSpec, Deployment } from "./app-types.ts";
import { deploymentError, findOwnApp, newestDeployment, settledApp, waitForDeployment } from "./apps.ts";
import type { Context } from "./context.ts";
import { activeRelease, pendingDomain } from "./release-of.ts";

/** Rolls out the spec, as a new app or as a new deployment of the existing one. */
export async function releaseApp(context: Context, spec: ReleaseSpec): Promise<Release> {
  const live = await settledApp(context);
  checkBase(context, spec, live);
  if (live === undefined) await createApp(context, wantedAppSpec(context, spec));
  else await updateApp(context, live, spec);
  const app = await settledApp(context);
  if (app === undefined) throw noLonger(context.target, "App");
  const domain = pendingDomain(app);
  if (domain !== undefined)
    context.tools.report(
      `${domain} does not lead to the service yet: add a CNAME record to ${new URL(app.default_ingress ?? "https://the-app.ondigitalocean.app").host}; its certificate then comes by itself`,
    );
  return activeRelease(context, app);
}

/**
 * App Platform has no lock: another run may have deployed since the plan was made, and its settings would be lost. What a killed
 * run of the same sources and settings deployed is no other run's.
 */
function checkBase(context: Context, spec: ReleaseSpec, live: App | undefined): void {
  const { deployment } = context.base;
  const now = live?.active_deployment?.id ?? "";
  if (deployment === undefined || deployment === now || isLeftByKilledRun(context)) return;
  const found = live && activeRelease(context, live);
  if (found !== undefined && isDeepStrictEqual(intentOf(found.env), intentOf(spec.env))) return;
  throw superseded(context.target.serviceName, found);
}

/** Variables, without the address, and without the image in the mark of the sources. */
function intentOf({
  SERVICE_PUBLIC_URL: _,
  [CONTEXT]: mark = "",
  ...env
}: Readonly<Record<string, string>> = {}) {
  return { ...env, [CONTEXT]: mark.replace(/-[0-9a-f]*$/, "") };
}

async function createApp(context: Context, spec: AppSpec): Promise<void> {
  const { api, target, tools } = context;
  const app = await tools.journal({ step: "app.create" }, async (note) => {
    const made = await api.send<{ app: App }>("POST", "/v2/apps", {
      body: { spec, ...(target.projectId === undefined ? {} : { project_id: target.projectId }) },
      reread: async () => {
        const found = await findOwnApp(context);
        return found && { app: found };
      },
    });
    await note({ app: made.app.id });
    return made.app;
  });
  await finish(context, app);
}

async function updateApp(context: Context, live: App, spec: ReleaseSpec): Promise<void> {
  const { api, tools } = context;
  const wanted = wantedAppSpec(context, spec, live.spec);
  if (!isDeepStrictEqual(wanted, live.spec)) {
    await putSpec(context, "app.update", live, wanted);
    return;
  }
  if (isActive(live)) return;
  const newest = await newestDeployment(context, live.id);
  // A failure of what a killed run started is that run's outcome; a later run tries again.
  if (newest && isLeftByKilledRun(context)) throw await deploymentError(context, live.id, newest);
  const { deployment } = await tools.journal({ step: "app.deploy", data: { app: live.id } }, () =>
    api.send<{ deployment: Deployment }>("POST", `/v2/apps/${live.id}/deployments`, {
      body: { force_build: false },
    }),
  );
  await waitForDeployment(context, live.id, deployment.id);
}

/** Replaces the spec, and follows the deployment that this starts. */
export async function putSpec(context: Context, step: string, live: App, spec: AppSpec): Promise<void> {
  const { app } = await context.tools.journal({ step, data: { app: live.id } }, () =>
    // Applying the same spec twice creates one deployment: a second call finds nothing to change.
    context.api.send<{ app: App }>("PUT", `/v2/apps/${live.id}`, { body: { spec }, idempotent: true }),
  );
  await finish(context, app);
}

async function finish(context: Context, app: App): Promise<void> {
  // The deployment in the response belongs to this call.
  const mine =
    app.pending_deployment ?? app.in_progress_deployment ?? (await newestDeployment(context, app.id));
  if (mine !== undefined) await waitForDeployment(context, app.id, mine.id);
}

/** Whether the serving deployment matches the spec: after a failed deployment it does not. */
function isActive({ spec, active_deployment }: App): boolean {
  const [now, wanted] = [ownService(active_deployment?.spec), ownService(spec)];
  return isDeepStrictEqual(now?.image, wanted?.image) && isDeepStrictEqual(now?.envs, wanted?.envs);
}

function isLeftByKilledRun({ tools }: Context): boolean {
  return ["app.create", "app.update", "app.deploy"].some((step) => tools.recall(step) !== undefined);
}
