import { type AwsTag, tagMap } from "../aws/tags.ts";
import { environmentOf } from "../cloud/listed.ts";
import type { Context } from "./context.ts";
import { allServices } from "./services.ts";

/** The environments of this base name in the region. */
export async function listServices(context: Context) {
  const { aws, target } = context;
  const found: { environment: string; since: string | undefined }[] = [];
  for await (const { ServiceName = "", ServiceArn, UpdatedAt } of allServices(context)) {
    if (!ServiceName.startsWith(`${target.name}-`)) continue;
    const { Tags } =
      (await aws.find<{ Tags?: AwsTag[] }>(
        "apprunner",
        "ListTagsForResource",
        { ResourceArn: ServiceArn },
        /ResourceNotFoundException/,
      )) ?? {};
    const environment = environmentOf(tagMap(Tags), target);
    if (environment !== undefined) found.push({ environment, since: UpdatedAt?.toISOString() });
  }
  return found;
}
