import type { ResourceAction } from "../../../core/models/deployment.ts";
import { type ReleaseActionsInput, releaseActions, resourceAction } from "../cloud/actions.ts";
import type { AwsContext } from "./aws-context.ts";
import { hasRepository } from "./ecr.ts";
import { planStorage } from "./job-bucket.ts";
import { findRole, type WantedRole } from "./roles.ts";

interface AwsPlan extends Omit<ReleaseActionsInput, "serviceName"> {
  /** The roles that svc creates for it. */
  readonly roles: readonly WantedRole[];
  /** The role that gets access to a bucket; undefined where the service runs with another than svc's own. */
  readonly bucketRole: WantedRole | undefined;
}

/** What a release on AWS makes besides its service, and the service. */
export async function planOnAws(
  context: AwsContext,
  { roles, bucketRole, ...release }: AwsPlan,
): Promise<ResourceAction[]> {
  const { serviceName } = context.target;
  return [
    resourceAction("registry", serviceName, await hasRepository(context), "Repository for images in ECR"),
    ...(await Promise.all(
      roles.map(async ({ name, purpose }) =>
        resourceAction("role", name, (await findRole(context, name)) !== undefined, `Role ${purpose}`),
      ),
    )),
    ...(await planStorage(context, bucketRole, release.spec, release.live)),
    ...releaseActions({ serviceName, ...release }),
  ];
}
