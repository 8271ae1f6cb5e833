import type { Finding } from "../../../deploy/platform.ts";
import { awsDefaults, credentialsSource } from "../aws/aws-config.ts";
import { BUCKET_ACTIONS, wantsBucket } from "../aws/job-bucket.ts";
import { COMMON_ACTIONS, permissionFindings } from "../aws/permissions.ts";
import { type NamedRole, roleFindings } from "../aws/role-findings.ts";
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
  const { identity, target, tools } = context;
  const region = awsDefaults(tools.env).region;
  const service = await findService(context);
  const { minInstances = 1, maxInstances = minInstances } = target.flags;
  const findings: Finding[] = [
    { level: "ok", subject: "credentials", message: `${identity.arn}, from ${credentialsSource(tools.env)}` },
    {
      level: "ok",
      subject: "region",
      message: `${target.region}, from ${region?.value === target.region ? region.source : "--region or the default"}`,
    },
  ];
  if (maxInstances < minInstances)
    findings.push({
      level: "error",
      subject: "instances",
      message: `--max-instances ${maxInstances} is below --min-instances ${minInstances}`,
    });
  if (service !== undefined && !isOwnService(context, service))
    findings.push({
      level: "error",
      subject: "name",
      message: `a service "${target.serviceName}" already exists and does not belong to this target`,
      fix: "Choose another name with --name",
    });
  return [
    ...findings,
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
