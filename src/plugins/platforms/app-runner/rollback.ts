import { DeployError } from "../../../deploy/errors.ts";
import type { Release } from "../../../deploy/platform.ts";
import { isSameSource, type Source, toSource, wantedAccessRole } from "./configuration.ts";
import type { Context } from "./context.ts";
import { putConfiguration } from "./release.ts";
import { toRelease } from "./release-of.ts";
import { settledService } from "./services.ts";

/**
 * Deploys the previous release again, as tags of the service or the state file describe it: App Runner does not keep
 * earlier revisions.
 */
export async function rollbackService(context: Context, to: Release): Promise<Release> {
  const service = await settledService(context);
  if (service === undefined)
    throw new DeployError("not_deployed", `Service "${context.target.serviceName}" no longer exists`);
  if (typeof to.data?.image !== "string" || to.data.image === "")
    throw new DeployError(
      "failed",
      "The release to roll back to is described neither by tags of the service nor in the state file",
      {
        fix: "Deploy its image again: svc deploy up --image TAG",
      },
    );
  const source = toSource(wantedAccessRole(context, service), to.data as unknown as Source);
  if (!isSameSource(service.SourceConfiguration, source))
    await putConfiguration(context, "service.rollback", service, { SourceConfiguration: source });
  return toRelease(context, (await settledService(context)) ?? service);
}
