import { tagMap } from "../aws/tags.ts";
import { environmentOf } from "../cloud/listed.ts";
import { type Context, clusterOf } from "./context.ts";
import type { Service } from "./service-types.ts";
import { tagsOf } from "./services.ts";

const MISSING =
  /ResourceNotFoundException|ServiceNotFoundException|ClusterNotFoundException|InvalidParameterException|Resource not found/;

/** The environments of this base name in the cluster. Services of other kinds are not described. */
export async function listServices(context: Context) {
  const { aws, target } = context;
  const found: { environment: string; since: string | undefined }[] = [];
  const cluster = clusterOf(target.flags);
  const pages = aws.pages<{ serviceArns?: readonly string[] }>(
    "ecs",
    "ListServices",
    { cluster, maxResults: 100 },
    MISSING,
  );
  for await (const { serviceArns = [] } of pages)
    for (const serviceArn of serviceArns) {
      if (!serviceArn.split("/").at(-1)?.startsWith(`${target.name}-`)) continue;
      const one = await aws.find<{ service?: Service }>(
        "ecs",
        "DescribeExpressGatewayService",
        { serviceArn, include: ["TAGS"] },
        MISSING,
      );
      const { status, updatedAt } = one?.service ?? {};
      if (status?.statusCode !== "ACTIVE") continue;
      const environment = environmentOf(tagMap(tagsOf(one?.service ?? {})), target);
      if (environment !== undefined) found.push({ environment, since: updatedAt?.toISOString() });
    }
  return found;
}
