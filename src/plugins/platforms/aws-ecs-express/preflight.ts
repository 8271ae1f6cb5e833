import type { Finding } from "../../../deploy/platform.ts";
import { BUCKET_ACTIONS, wantsBucket } from "../aws/job-bucket.ts";
import { loginFindings } from "../aws/login-findings.ts";
import { COMMON_ACTIONS, permissionFindings } from "../aws/permissions.ts";
import { type NamedRole, roleFindings } from "../aws/role-findings.ts";
import { foreignName, rangeFindings } from "../cloud/findings.ts";
import type { Context } from "./context.ts";
import type { EcsExpressFlags } from "./flags.ts";
import { findService, isOwnService } from "./services.ts";

const ACTIONS = [
  ...COMMON_ACTIONS,
  "ecs:CreateExpressGatewayService",
  "ecs:UpdateExpressGatewayService",
  "ecs:DescribeExpressGatewayService",
  "ecs:DeleteExpressGatewayService",
  "ecs:ListServiceDeployments",
  "ecs:DescribeServiceDeployments",
  "ecs:StopServiceDeployment",
];

/** Checks everything that could prevent a deployment, and changes nothing. */
export async function preflight(context: Context): Promise<Finding[]> {
  const { target } = context;
  const service = await findService(context);
  return [
    ...loginFindings(context),
    ...rangeFindings(target.flags),
    ...(service === undefined || isOwnService(context, service) ? [] : [foreignName(target)]),
    ...(await roleFindings(context, namedRoles(target.flags))),
    ...(await permissionFindings(context, [...ACTIONS, ...(wantsBucket(target) ? BUCKET_ACTIONS : [])])),
  ];
}

function namedRoles({ taskRole, executionRole }: EcsExpressFlags): NamedRole[] {
  const principal = "ecs-tasks.amazonaws.com";
  return [
    ...(taskRole ? [{ arn: taskRole, option: "--task-role", principal, needs: ["bucket"] as const }] : []),
    ...(executionRole
      ? [{ arn: executionRole, option: "--execution-role", principal, needs: ["secrets"] as const }]
      : []),
  ];
}
