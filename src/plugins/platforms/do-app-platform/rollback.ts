import { DeployError } from "../../../deploy/errors.ts";
import type { Release } from "../../../deploy/platform.ts";
import { noLonger } from "../cloud/findings.ts";
import type { Deployment } from "./app-types.ts";
import { settledApp, waitForDeployment } from "./apps.ts";
import type { Context } from "./context.ts";
import { activeRelease, toRelease } from "./release-of.ts";

interface Verdict {
  readonly valid?: boolean;
  readonly error?: { readonly code?: string; readonly message?: string };
  readonly warnings?: readonly { readonly code?: string; readonly message?: string }[];
}

/** Rolls back to an earlier deployment, without the pin that would block the next one. */
export async function rollbackApp(context: Context, to: Release): Promise<Release> {
  const { api, tools, target } = context;
  const app = await settledApp(context);
  if (app === undefined) throw noLonger(target, "App");
  const id = String(to.data?.deployment ?? to.revision ?? "");
  // A failed deployment never served: the previous one still does. A deployment cloned from it is the
  // rollback of an earlier run.
  const { id: active, cloned_from: source } = app.active_deployment ?? {};
  if (active === id || source === id) return activeRelease(context, app);

  const body = { deployment_id: id, skip_pin: true };
  const verdict = await api.send<Verdict>("POST", `/v2/apps/${app.id}/rollback/validate`, {
    body,
    idempotent: true,
  });
  for (const warning of verdict.warnings ?? []) tools.report(`rollback: ${warning.message ?? warning.code}`);
  if (verdict.error?.code === "app_pinned")
    await tools.journal({ step: "app.unpin" }, () => api.send("POST", `/v2/apps/${app.id}/rollback/commit`));
  else if (verdict.valid === false)
    throw new DeployError("failed", `App Platform cannot roll back to deployment ${id}`, {
      detail: [verdict.error?.code, verdict.error?.message].filter(Boolean).join(": "),
      fix: "Deploy the earlier image again: svc deploy up --image TAG",
    });
  const { deployment } = await tools.journal({ step: "app.rollback", data: { to: id } }, () =>
    api.send<{ deployment: Deployment }>("POST", `/v2/apps/${app.id}/rollback`, { body }),
  );
  await waitForDeployment(context, app.id, deployment.id);
  const after = await settledApp(context);
  return activeRelease(context, after ?? app);
}

/** Deployments that served, newest first. */
export async function deploymentHistory(context: Context): Promise<Release[]> {
  const app = await settledApp(context);
  if (app === undefined) return [];
  const { deployments = [] } = await context.api.get<{ deployments?: Deployment[] }>(
    `/v2/apps/${app.id}/deployments`,
    {
      page: 1,
      per_page: 20,
    },
  );
  return deployments
    .filter(({ phase }) => phase === "ACTIVE" || phase === "SUPERSEDED")
    .map((deployment) => toRelease(context, app, deployment));
}
