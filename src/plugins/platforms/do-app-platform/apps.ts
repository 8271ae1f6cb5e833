import { DeployError } from "../../../deploy/errors.ts";
import { notOwn } from "../cloud/findings.ts";
import { pollUntil } from "../cloud/poll.ts";
import { ownService } from "./app-spec.ts";
import type { App, Deployment, ProgressStep } from "./app-types.ts";
import type { Context } from "./context.ts";
import { lastLogLines } from "./logs.ts";
import { isOwnApp, readMarker } from "./marker.ts";

const EVERY = 5000;
const ENDED = ["ACTIVE", "SUPERSEDED", "ERROR", "CANCELED"];
const PAGE = 100;

/** The app with this target's name, no matter who created it. */
export async function findApp({ api, target }: Context): Promise<App | undefined> {
  for await (const app of allApps({ api })) if (app.spec.name === target.serviceName) return app;
  return undefined;
}

/** The environments of this base name in the account. */
export async function listApps(context: Context) {
  const found: { environment: string; since: string | undefined }[] = [];
  for await (const { spec, active_deployment: active } of allApps(context)) {
    const marker = readMarker(ownService(spec)?.envs);
    if (marker?.service === context.target.name)
      found.push({ environment: marker.environment, since: active?.created_at });
  }
  return found;
}

async function* allApps({ api }: Pick<Context, "api">): AsyncGenerator<App> {
  for (let page = 1; ; page++) {
    const { apps = [] } = await api.get<{ apps?: App[] }>("/v2/apps", { page, per_page: PAGE });
    yield* apps;
    if (apps.length < PAGE) return;
  }
}

/** The app of this target; a service that somebody else created is left alone. */
export async function findOwnApp(context: Context): Promise<App | undefined> {
  const app = await findApp(context);
  if (app === undefined || isOwnApp(ownService(app.spec)?.envs, context.target)) return app;
  throw notOwn(context.target, { what: "App" });
}

/** The app, once no deployment of it is in progress: there can be only one at a time. */
export async function settledApp(context: Context): Promise<App | undefined> {
  return pollUntil({
    tools: context.tools,
    every: EVERY,
    read: () => findOwnApp(context),
    done: (app) => app === undefined || !(app.pending_deployment ?? app.in_progress_deployment),
  });
}

export async function newestDeployment({ api }: Context, appId: string): Promise<Deployment | undefined> {
  const { deployments = [] } = await api.get<{ deployments?: Deployment[] }>(
    `/v2/apps/${appId}/deployments`,
    {
      page: 1,
      per_page: 1,
    },
  );
  return deployments[0];
}

/** Follows a deployment to its end; a failure has its cause and the last lines of its log. */
export async function waitForDeployment(context: Context, appId: string, id: string): Promise<Deployment> {
  const path = `/v2/apps/${appId}/deployments/${id}`;
  const ended = await pollUntil({
    tools: context.tools,
    every: EVERY,
    read: async () => (await context.api.get<{ deployment: Deployment }>(path)).deployment,
    done: ({ phase }) => ENDED.includes(phase ?? ""),
    stage: ({ phase }) => phase && `deployment ${phase}`,
  });
  // A newer deployment replaced ours: that one counts now.
  if (ended.phase === "SUPERSEDED") {
    context.tools.report("the deployment was superseded by a newer one");
    return ended;
  }
  if (ended.phase !== "ACTIVE") throw await deploymentError(context, appId, ended);
  return ended;
}

export async function deploymentError(
  context: Context,
  appId: string,
  deployment: Deployment,
): Promise<DeployError> {
  const causes = failedSteps(deployment.progress?.steps ?? []);
  return new DeployError("failed", `Deployment ${deployment.id} ended as ${deployment.phase}`, {
    detail: causes.join("; ") || undefined,
    log: await lastLogLines(context, appId, deployment.id),
  });
}

function failedSteps(steps: readonly ProgressStep[]): string[] {
  return steps.flatMap((step) => {
    const inner = failedSteps(step.steps ?? []);
    if (step.status !== "ERROR" || inner.length > 0) return inner;
    return [[step.name, step.reason?.code, step.reason?.message].filter(Boolean).join(": ")];
  });
}
