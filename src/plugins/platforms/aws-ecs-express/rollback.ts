import type { Release } from "../../../deploy/platform.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { noLonger, notDescribed } from "../cloud/findings.ts";
import { isSameContainer } from "./configuration.ts";
import type { Context } from "./context.ts";
import { putConfiguration } from "./release.ts";
import { toRelease } from "./release-of.ts";
import type { PrimaryContainer } from "./service-types.ts";
import {
  findOwnService,
  isGoingOn,
  newestDeployment,
  settledService,
  waitForDeployment,
} from "./services.ts";

/**
 * Rolls back to the previous release: by stopping a deployment that is still in progress, else by deploying
 * it again.
 */
export async function rollbackService(context: Context, to: Release): Promise<Release> {
  if ((await findOwnService(context)) === undefined) throw noLonger(context.target);
  await stopDeployment(context);
  const service = await settledService(context);
  if (service === undefined) throw noLonger(context.target);
  const container = to.data?.container as PrimaryContainer | null | undefined;
  if (!container?.image) throw notDescribed("ECS");
  const { cpuArchitecture } = to.data as { readonly cpuArchitecture?: string | null };
  if (!isSameContainer(service.activeConfigurations?.[0]?.primaryContainer, container))
    await putConfiguration(context, "service.rollback", {
      primaryContainer: container,
      // Its image was built for this processor.
      ...(cpuArchitecture ? { cpuArchitecture } : {}),
    });
  return toRelease((await settledService(context)) ?? service);
}

async function stopDeployment(context: Context): Promise<void> {
  const newest = await newestDeployment(context);
  const arn = newest?.serviceDeploymentArn;
  if (newest === undefined || arn === undefined || !isGoingOn(newest)) return;
  const noted = context.tools.recall("service.rollback");
  // Waits for the rollback that a killed run started.
  if (noted !== undefined && noted.before !== arn) return;
  await context.tools.journal({ step: "deployment.stop", data: { arn } }, async () => {
    try {
      await context.aws.send(
        "ecs",
        "StopServiceDeployment",
        { serviceDeploymentArn: arn, stopType: "ROLLBACK" },
        { idempotent: true },
      );
    } catch (error) {
      // It ended in the meantime; its result is checked next.
      if (!(error instanceof CloudError) || error.code !== "ConflictException") throw error;
    }
    await waitForDeployment(context, arn);
  });
}
