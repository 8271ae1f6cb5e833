import type { Release } from "../../../deploy/platform.ts";
import { noLonger, notDescribed } from "../cloud/findings.ts";
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
  if (service === undefined) throw noLonger(context.target);
  if (typeof to.data?.image !== "string" || to.data.image === "") throw notDescribed("tags of the service");
  const source = toSource(wantedAccessRole(context, service), to.data as unknown as Source);
  if (!isSameSource(service.SourceConfiguration, source))
    await putConfiguration(context, "service.rollback", service, { SourceConfiguration: source });
  return toRelease(context, (await settledService(context)) ?? service);
}
