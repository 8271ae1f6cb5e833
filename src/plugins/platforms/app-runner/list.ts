import { tagMap } from "../aws/tags.ts";
import { environmentOf } from "../cloud/listed.ts";
import type { Context } from "./context.ts";
import { allServices, listTags } from "./services.ts";

/** The environments of this base name in the region. */
export async function listServices(context: Context) {
  const { target } = context;
  const found: { environment: string; since: string | undefined }[] = [];
  for await (const service of allServices(context)) {
    if (!service.ServiceName?.startsWith(`${target.name}-`)) continue;
    const environment = environmentOf(tagMap(await listTags(context, service)), target);
    if (environment !== undefined) found.push({ environment, since: service.UpdatedAt?.toISOString() });
  }
  return found;
}
