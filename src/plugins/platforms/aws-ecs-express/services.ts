import { type AwsTag, tagMap } from "../aws/tags.ts";
import { notOwn } from "../cloud/findings.ts";
import { isOwn } from "../cloud/ownership.ts";
import { pollUntil } from "../cloud/poll.ts";
import { type Context, clusterOf, serviceArn } from "./context.ts";
import type { Service, ServiceDeployment } from "./service-types.ts";

const EVERY = 5000;
const MISSING =
  /ResourceNotFoundException|ServiceNotFoundException|ClusterNotFoundException|Resource not found/;
const GOING_ON = ["PENDING", "IN_PROGRESS", "STOP_REQUESTED", "ROLLBACK_REQUESTED", "ROLLBACK_IN_PROGRESS"];

/** The service with this target's name, no matter who created it; undefined if it was removed. */
export async function findService(context: Context): Promise<Service | undefined> {
  const found = await context.aws.find<{ service?: Service }>(
    "ecs",
    "DescribeExpressGatewayService",
    { serviceArn: serviceArn(context), include: ["TAGS"] },
    MISSING,
  );
  return found?.service?.status?.statusCode === "INACTIVE" ? undefined : found?.service;
}

/** The service of this target; a service that somebody else created is left alone. */
export async function findOwnService(context: Context): Promise<Service | undefined> {
  const service = await findService(context);
  if (service === undefined || isOwnService(context, service)) return service;
  throw notOwn(context.target);
}

export function isOwnService({ target }: Context, service: Service): boolean {
  return isOwn(tagMap(tagsOf(service)), target);
}

/** The tags of a service as other services of AWS write them. */
export function tagsOf({ tags = [] }: Service): AwsTag[] {
  return tags.map(({ key = "", value = "" }) => ({ Key: key, Value: value }));
}

/** The newest deployment of the service. */
export async function newestDeployment(context: Context): Promise<ServiceDeployment | undefined> {
  const [newest] = await listDeployments(context, { maxResults: 10 });
  return newest;
}

/** Deployments of the service, newest first. */
export async function listDeployments(
  context: Context,
  filter: { readonly status?: readonly string[]; readonly maxResults?: number },
): Promise<readonly ServiceDeployment[]> {
  const { serviceDeployments = [] } =
    (await context.aws.find<{ serviceDeployments?: ServiceDeployment[] }>(
      "ecs",
      "ListServiceDeployments",
      { service: serviceArn(context), cluster: clusterOf(context.target.flags), ...filter },
      MISSING,
    )) ?? {};
  return serviceDeployments;
}

async function readDeployment(context: Context, arn: string): Promise<ServiceDeployment | undefined> {
  const { serviceDeployments = [] } = await context.aws.read<{ serviceDeployments?: ServiceDeployment[] }>(
    "ecs",
    "DescribeServiceDeployments",
    { serviceDeploymentArns: [arn] },
  );
  return serviceDeployments[0];
}

export function isGoingOn({ status = "" }: ServiceDeployment): boolean {
  return GOING_ON.includes(status);
}

/** The service, once no deployment of it is in progress and none is being removed. */
export async function settledService(context: Context): Promise<Service | undefined> {
  return pollUntil({
    tools: context.tools,
    every: EVERY,
    async read() {
      const service = await findOwnService(context);
      const newest = service && (await newestDeployment(context));
      const busy = service?.status?.statusCode === "DRAINING" || (newest !== undefined && isGoingOn(newest));
      return { service, busy };
    },
    done: ({ busy }) => !busy,
  }).then(({ service }) => service);
}

/** Follows a deployment to its end, reporting its stage. */
export async function waitForDeployment(context: Context, arn: string): Promise<ServiceDeployment> {
  return pollUntil<ServiceDeployment>({
    tools: context.tools,
    every: EVERY,
    read: async () => (await readDeployment(context, arn)) ?? { status: "PENDING" },
    done: (deployment) => !isGoingOn(deployment),
    stage: ({ lifecycleStage, status = "" }) => `deployment ${lifecycleStage ?? status}`,
  });
}
