import type { Finding } from "../../../deploy/platform.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import type { AwsContext } from "./aws-context.ts";

/** Calls that every deployment on AWS makes, whatever the platform. */
export const COMMON_ACTIONS = [
  "ecr:DescribeRepositories",
  "ecr:CreateRepository",
  "ecr:DescribeImages",
  "ecr:GetAuthorizationToken",
  "ecr:BatchCheckLayerAvailability",
  "ecr:InitiateLayerUpload",
  "ecr:UploadLayerPart",
  "ecr:CompleteLayerUpload",
  "ecr:PutImage",
  "iam:GetRole",
  "iam:CreateRole",
  "iam:AttachRolePolicy",
  "iam:PutRolePolicy",
  "iam:PassRole",
  "secretsmanager:ListSecrets",
  "secretsmanager:DescribeSecret",
  "secretsmanager:CreateSecret",
  "secretsmanager:PutSecretValue",
  "secretsmanager:TagResource",
] as const;

interface Evaluation {
  readonly EvalActionName?: string;
  readonly EvalDecision?: string;
}

/**
 * Asks IAM which of the given calls the caller may make. A caller who may not ask gets a finding, and the
 * check continues.
 */
export async function permissionFindings(
  context: AwsContext,
  actions: readonly string[],
): Promise<Finding[]> {
  const { aws, identity } = context;
  try {
    const { EvaluationResults = [] } = await aws.read<{ EvaluationResults?: Evaluation[] }>(
      "iam",
      "SimulatePrincipalPolicy",
      { PolicySourceArn: principalOf(identity.arn), ActionNames: [...actions] },
    );
    const denied = EvaluationResults.filter(({ EvalDecision }) => EvalDecision !== "allowed");
    if (denied.length === 0)
      return [{ level: "ok", subject: "permissions", message: `all ${actions.length} held` }];
    return denied.map(({ EvalActionName }) => ({
      level: "error" as const,
      subject: "permission",
      message: `${EvalActionName} is not allowed for ${identity.arn}`,
      fix: "Have an administrator allow it; the documentation has a policy to paste",
    }));
  } catch (error) {
    if (!(error instanceof CloudError) || error.status >= 500) throw error;
    return [{ level: "warning", subject: "permissions", message: `could not be checked: ${error.text}` }];
  }
}

/** The role of a session, for which policies are simulated. */
function principalOf(arn: string): string {
  const match = /^(arn:[^:]+):sts::(\d+):assumed-role\/([^/]+)\//.exec(arn);
  return match ? `${match[1]}:iam::${match[2]}:role/${match[3]}` : arn;
}
