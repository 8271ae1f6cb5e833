import type { Finding } from "../../../deploy/platform.ts";
import { isDenied } from "../aws/denied.ts";
import { BUCKET_ACTIONS, wantsBucket } from "../aws/job-bucket.ts";
import { loginFindings } from "../aws/login-findings.ts";
import { COMMON_ACTIONS, permissionFindings } from "../aws/permissions.ts";
import { roleFindings } from "../aws/role-findings.ts";
import { foreignName, rangeFindings } from "../cloud/findings.ts";
import type { Context } from "./context.ts";
import { findService, isOwnService } from "./services.ts";

const REGIONS = [
  "us-east-1",
  "us-east-2",
  "us-west-2",
  "eu-central-1",
  "eu-west-1",
  "eu-west-2",
  "eu-west-3",
  "ap-northeast-1",
  "ap-south-1",
  "ap-southeast-1",
  "ap-southeast-2",
];
const ACTIONS = [
  ...COMMON_ACTIONS,
  "apprunner:ListServices",
  "apprunner:DescribeService",
  "apprunner:ListOperations",
  "apprunner:ListTagsForResource",
  "apprunner:CreateService",
  "apprunner:UpdateService",
  "apprunner:PauseService",
  "apprunner:DeleteService",
];
const DOMAIN_ACTIONS = [
  "apprunner:DescribeCustomDomains",
  "apprunner:AssociateCustomDomain",
  "apprunner:DisassociateCustomDomain",
];
const SUCCESSOR = "--platform aws-ecs-express";

/** Set where App Runner is not in the region: a lock is written only where it is. */
export function regionProblem({ target }: Context): Finding | undefined {
  if (REGIONS.includes(target.region)) return undefined;
  return {
    level: "error",
    subject: "region",
    message: `App Runner is not in "${target.region}"`,
    fix: `Choose another with --region: ${REGIONS.join(", ")}; or use ${SUCCESSOR}`,
  };
}

/** Checks everything that could prevent a deployment, and changes nothing. */
export async function preflight(context: Context): Promise<Finding[]> {
  const { target } = context;
  const [credentials, region] = loginFindings(context);
  const found: Finding[] = [
    credentials,
    {
      level: "warning",
      subject: "App Runner",
      message: "has been closed to new customers since 30 April 2026 and gets no new features",
      fix: `For a new service, use ${SUCCESSOR}`,
    },
  ];
  const problem = regionProblem(context);
  if (problem !== undefined) return [...found, problem];
  found.push(region);
  const { instanceRole } = target.flags;
  const named =
    instanceRole === undefined
      ? []
      : [
          {
            arn: instanceRole,
            option: "--instance-role",
            principal: "tasks.apprunner.amazonaws.com",
            needs: ["secrets", "bucket"] as const,
          },
        ];
  return [
    ...found,
    ...rangeFindings(target.flags),
    ...(await roleFindings(context, named)),
    ...(await accessFindings(context)),
    ...(await permissionFindings(context, [
      ...ACTIONS,
      ...(wantsBucket(target) ? BUCKET_ACTIONS : []),
      ...(target.flags.domain === undefined ? [] : DOMAIN_ACTIONS),
    ])),
  ];
}

/** Distinguishes an account that App Runner does not accept from a user who lacks a permission. */
async function accessFindings(context: Context): Promise<Finding[]> {
  try {
    const service = await findService(context);
    if (service === undefined || (await isOwnService(context, service))) return [];
    return [foreignName(context.target)];
  } catch (error) {
    if (!isDenied(error)) throw error;
    const closed = /no longer available to new customers|maintenance mode/i.test(error.text);
    return [
      {
        level: "error",
        subject: "App Runner",
        message: closed ? `is closed for this account: ${error.text}` : `refuses access: ${error.text}`,
        fix: closed ? `Use its successor: ${SUCCESSOR}` : "Have an administrator allow apprunner:* for you",
      },
    ];
  }
}
