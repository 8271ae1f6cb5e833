import { type AwsTag, tagMap } from "../aws/tags.ts";
import { notOwn } from "../cloud/findings.ts";
import { isOwn } from "../cloud/ownership.ts";
import { pollUntil } from "../cloud/poll.ts";
import type { Context } from "./context.ts";
import type { Operation, Service } from "./service-types.ts";

const EVERY = 4000;
export const MISSING = /ResourceNotFoundException/;

/** The service of this target's name. Its full name ends in an id that only the list shows. */
export async function findService(context: Context): Promise<Service | undefined> {
  const arn = await findArn(context);
  if (arn === undefined) return undefined;
  const found = await context.aws.find<{ Service?: Service }>(
    "apprunner",
    "DescribeService",
    { ServiceArn: arn },
    MISSING,
  );
  return found?.Service?.Status === "DELETED" ? undefined : found?.Service;
}

/** The service of this target; a service that somebody else created is left alone. */
export async function findOwnService(context: Context): Promise<Service | undefined> {
  const service = await findService(context);
  if (service === undefined || (await isOwnService(context, service))) return service;
  throw notOwn(context.target);
}

export async function isOwnService(context: Context, service: Service): Promise<boolean> {
  return isOwn(tagMap(await listTags(context, service)), context.target);
}

/** The tags of a service; none if it was removed. */
export async function listTags({ aws }: Context, { ServiceArn }: Service): Promise<readonly AwsTag[]> {
  const { Tags = [] } =
    (await aws.find<{ Tags?: AwsTag[] }>(
      "apprunner",
      "ListTagsForResource",
      { ResourceArn: ServiceArn },
      MISSING,
    )) ?? {};
  return Tags;
}

/** The service, once no operation on it is in progress. */
export async function settledService(context: Context): Promise<Service | undefined> {
  return pollUntil({
    tools: context.tools,
    every: EVERY,
    read: () => findOwnService(context),
    done: (service) => service?.Status !== "OPERATION_IN_PROGRESS",
  });
}

/** Operations of a service, newest first. */
export async function listOperations({ aws }: Context, arn: string): Promise<Operation[]> {
  const { OperationSummaryList = [] } =
    (await aws.find<{ OperationSummaryList?: Operation[] }>(
      "apprunner",
      "ListOperations",
      { ServiceArn: arn, MaxResults: 20 },
      MISSING,
    )) ?? {};
  return OperationSummaryList;
}

/**
 * Follows an operation to its end. The service's own status does not show its outcome: App Runner rolls back
 * by itself after a failed update, and then reports that the service is running.
 */
export async function waitForOperation(
  context: Context,
  arn: string,
  id: string | undefined,
): Promise<Operation> {
  const operation = await pollUntil({
    tools: context.tools,
    every: EVERY,
    read: async () => {
      const operations = await listOperations(context, arn);
      return operations.find(({ Id }) => Id === id) ?? (id === undefined ? operations[0] : undefined);
    },
    done: (found) => found === undefined || isEnded(found),
    stage: (found) => found?.Status && `operation ${found.Status}`,
  });
  return operation ?? { Status: "SUCCEEDED" };
}

function isEnded({ Status = "" }: Operation): boolean {
  return ["SUCCEEDED", "FAILED", "ROLLBACK_SUCCEEDED", "ROLLBACK_FAILED"].includes(Status);
}

/** All services of the region that were not deleted, as the list shows them. */
export async function* allServices({ aws }: Pick<Context, "aws">): AsyncGenerator<Service> {
  const pages = aws.pages<{ ServiceSummaryList?: Service[] }>("apprunner", "ListServices", {
    MaxResults: 20,
  });
  for await (const { ServiceSummaryList = [] } of pages)
    for (const service of ServiceSummaryList) if (service.Status !== "DELETED") yield service;
}

async function findArn(context: Context): Promise<string | undefined> {
  for await (const { ServiceName, ServiceArn } of allServices(context))
    if (ServiceName === context.target.serviceName) return ServiceArn;
  return undefined;
}
