import { tagMap } from "../aws/tags.ts";
import { environmentOf } from "../cloud/listed.ts";
import { type Context, clusterOf } from "./context.ts";
import type { Service } from "./service-types.ts";

const MISSING =
  /ResourceNotFoundException|ServiceNotFoundException|ClusterNotFoundException|InvalidParameterException|Resource not found/;

/** The environments of this base name in the cluster. Services of other kinds are not described. */
export async function listServices(context: Context) {
  const { aws, target } = context;
  const found: { environment: string; since: string | undefined }[] = [];
  let nextToken: string | undefined;
  do {
    const page: { serviceArns?: readonly string[]; nextToken?: string } =
      (await aws.find(
        "ecs",
        "ListServices",
        { cluster: clusterOf(target.flags), maxResults: 100, ...(nextToken ? { nextToken } : {}) },
        MISSING,
      )) ?? {};
    for (const serviceArn of page.serviceArns ?? []) {
      if (!serviceArn.split("/").at(-1)?.startsWith(`${target.name}-`)) continue;
      const one = await aws.find<{ service?: Service }>(
        "ecs",
        "DescribeExpressGatewayService",
        { serviceArn, include: ["TAGS"] },
        MISSING,
      );
      const { status, tags = [], updatedAt } = one?.service ?? {};
      if (status?.statusCode !== "ACTIVE") continue;
      const marks = tagMap(tags.map(({ key = "", value = "" }) => ({ Key: key, Value: value })));
      const environment = environmentOf(marks, target);
      if (environment !== undefined) found.push({ environment, since: updatedAt?.toISOString() });
    }
    nextToken = page.nextToken;
  } while (nextToken !== undefined);
  return found;
}
