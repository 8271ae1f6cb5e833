import type { Finding } from "../../../deploy/platform.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import type { AwsContext } from "./aws-context.ts";
import { bucketObjects, wantsBucket } from "./job-bucket.ts";
import { findRole } from "./roles.ts";

/** A role that an option names: svc uses it as it is, and never changes it. */
export interface NamedRole {
  readonly arn: string;
  /** The option, such as `--task-role`. */
  readonly option: string;
  /** Service of AWS that assumes it. */
  readonly principal: string;
  /** What the service needs of it. */
  readonly needs: readonly ("secrets" | "bucket")[];
}

interface Evaluation {
  readonly EvalActionName?: string;
  readonly EvalDecision?: string;
}

/** Whether the named roles exist, can be assumed, and may do what svc would have allowed its own. */
export async function roleFindings(context: AwsContext, roles: readonly NamedRole[]): Promise<Finding[]> {
  const found = await Promise.all(roles.map((role) => findingsOf(context, role)));
  return found.flat();
}

async function findingsOf(context: AwsContext, role: NamedRole): Promise<Finding[]> {
  const { arn, option, principal } = role;
  const finding = (level: Finding["level"], message: string, fix?: string): Finding => ({
    level,
    subject: "role",
    message: `${option}: ${message}`,
    ...(fix === undefined ? {} : { fix }),
  });
  const { account } = context.identity;
  if (arn.split(":")[4] !== account)
    return [finding("error", `${arn} is not of the account ${account}`, "Name a role of this account")];
  try {
    const there = await findRole(context, arn.split("/").at(-1) ?? "");
    if (there?.Arn !== arn)
      return [finding("error", `${arn} does not exist`, "Create it, or name another role")];
    if (!decodeURIComponent(there.AssumeRolePolicyDocument ?? "").includes(principal))
      return [
        finding(
          "error",
          `${arn} cannot be assumed by ${principal}`,
          `Allow sts:AssumeRole for the service ${principal} in the role's trust policy`,
        ),
      ];
    const denied = await deniedOf(context, role);
    if (denied.length === 0) return [finding("ok", arn)];
    return denied.map(([action, resource]) =>
      finding("warning", `${arn} may not ${action} ${resource}`, "Allow it in a policy of the role"),
    );
  } catch (error) {
    if (!(error instanceof CloudError) || error.status >= 500) throw error;
    return [finding("warning", `${arn} could not be checked: ${error.text}`)];
  }
}

/** What a role may not do, with the resource. */
async function deniedOf(context: AwsContext, { arn, needs }: NamedRole): Promise<[string, string][]> {
  const denied: [string, string][] = [];
  for (const [action, resource] of neededOf(context, needs)) {
    const { EvaluationResults = [] } = await context.aws.read<{ EvaluationResults?: Evaluation[] }>(
      "iam",
      "SimulatePrincipalPolicy",
      { PolicySourceArn: arn, ActionNames: [action], ResourceArns: [resource] },
    );
    if (EvaluationResults.some(({ EvalDecision }) => EvalDecision !== "allowed"))
      denied.push([action, resource]);
  }
  return denied;
}

function neededOf(context: AwsContext, needs: NamedRole["needs"]): [string, string][] {
  const { target, identity } = context;
  const { partition, account } = identity;
  const secrets = `arn:${partition}:secretsmanager:${target.region}:${account}:secret:${target.serviceName}/*`;
  return [
    ...(needs.includes("secrets")
      ? [["secretsmanager:GetSecretValue", secrets] satisfies [string, string]]
      : []),
    ...(needs.includes("bucket") && wantsBucket(target)
      ? [["s3:PutObject", bucketObjects(context)] satisfies [string, string]]
      : []),
  ];
}
