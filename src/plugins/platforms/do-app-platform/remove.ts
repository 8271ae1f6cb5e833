import { CloudError } from "../cloud/cloud-error.ts";
import { pollGone } from "../cloud/poll.ts";
import { findOwnApp, settledApp } from "./apps.ts";
import type { Context } from "./context.ts";
import { putSpec } from "./release.ts";

/** Archives the app: its instances stop. Fewer than one instance is not possible otherwise. */
export async function archiveApp(context: Context): Promise<void> {
  const app = await settledApp(context);
  if (app === undefined || app.spec.maintenance?.archive) return;
  await putSpec(context, "app.archive", app, {
    ...app.spec,
    maintenance: { ...app.spec.maintenance, archive: true },
  });
}

/** Deletes the app, its secrets with it, and waits until its name is free. */
export async function removeApp(context: Context): Promise<void> {
  const app = await settledApp(context);
  if (app === undefined) return;
  await context.tools.journal({ step: "app.delete", data: { app: app.id } }, async () => {
    try {
      await context.api.send("DELETE", `/v2/apps/${app.id}`, { idempotent: true });
    } catch (error) {
      if (!(error instanceof CloudError) || error.status !== 404) throw error;
    }
  });
  await pollGone({ tools: context.tools, every: 2000, read: () => findOwnApp(context) });
}
