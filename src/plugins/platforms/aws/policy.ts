/** Part of a policy of IAM. */
export interface Statement {
  readonly Effect: "Allow";
  readonly Action: string | readonly string[];
  readonly Resource: string;
}

/** The service of AWS that runs containers. */
export type Runner = "ecs" | "apprunner";

const CALLS: Readonly<Record<Runner, readonly string[]>> = {
  ecs: [
    "ecs:CreateExpressGatewayService",
    "ecs:UpdateExpressGatewayService",
    "ecs:DescribeExpressGatewayService",
    "ecs:DeleteExpressGatewayService",
    "ecs:ListServices",
    "ecs:ListServiceDeployments",
    "ecs:DescribeServiceDeployments",
    "ecs:DescribeServiceRevisions",
    "ecs:DescribeTaskDefinition",
    "ecs:StopServiceDeployment",
    "ecs:TagResource",
    "ecs:UntagResource",
  ],
  apprunner: [
    "apprunner:ListServices",
    "apprunner:DescribeService",
    "apprunner:ListOperations",
    "apprunner:ListTagsForResource",
    "apprunner:CreateService",
    "apprunner:UpdateService",
    "apprunner:PauseService",
    "apprunner:ResumeService",
    "apprunner:DeleteService",
    "apprunner:TagResource",
    "apprunner:UntagResource",
    "apprunner:DescribeCustomDomains",
    "apprunner:AssociateCustomDomain",
    "apprunner:DisassociateCustomDomain",
    "apprunner:ListAutoScalingConfigurations",
    "apprunner:CreateAutoScalingConfiguration",
    "apprunner:DeleteAutoScalingConfiguration",
  ],
};

/** The documented policy, for services whose names match, such as `hello-*`. */
export function deployPolicy(
  account: string,
  names: string,
  runner: Runner,
  { withBucket = false } = {},
): { Statement: Statement[] } {
  const allow = (Action: Statement["Action"], Resource: string): Statement => ({
    Effect: "Allow",
    Action,
    Resource,
  });
  const of = (service: string, rest: string) => `arn:aws:${service}:*:${account}:${rest}`;
  return {
    Statement: [
      allow(
        [
          "sts:GetCallerIdentity",
          "ecr:GetAuthorizationToken",
          "secretsmanager:ListSecrets",
          "iam:SimulatePrincipalPolicy",
          "logs:FilterLogEvents",
        ],
        "*",
      ),
      allow(
        [
          "ecr:DescribeRepositories",
          "ecr:CreateRepository",
          "ecr:DescribeImages",
          "ecr:TagResource",
          "ecr:BatchCheckLayerAvailability",
          "ecr:InitiateLayerUpload",
          "ecr:UploadLayerPart",
          "ecr:CompleteLayerUpload",
          "ecr:PutImage",
          "ecr:BatchGetImage",
          "ecr:GetDownloadUrlForLayer",
        ],
        of("ecr", `repository/${names}`),
      ),
      allow(["ecr:DeleteRepository", "ecr:ListTagsForResource"], of("ecr", `repository/${names}.lock*`)),
      allow(
        [
          "secretsmanager:DescribeSecret",
          "secretsmanager:GetSecretValue",
          "secretsmanager:CreateSecret",
          "secretsmanager:PutSecretValue",
          "secretsmanager:TagResource",
          "secretsmanager:RestoreSecret",
          "secretsmanager:DeleteSecret",
        ],
        of("secretsmanager", `secret:${names}`),
      ),
      allow(
        [
          "iam:GetRole",
          "iam:CreateRole",
          "iam:TagRole",
          "iam:DeleteRole",
          "iam:AttachRolePolicy",
          "iam:DetachRolePolicy",
          "iam:ListAttachedRolePolicies",
          "iam:ListRolePolicies",
          "iam:GetRolePolicy",
          "iam:PutRolePolicy",
          "iam:DeleteRolePolicy",
          "iam:PassRole",
        ],
        `arn:aws:iam::${account}:role/${names}`,
      ),
      allow(CALLS[runner], "*"),
      allow("iam:CreateServiceLinkedRole", "*"),
      ...(withBucket
        ? [
            allow(
              ["s3:ListBucket", "s3:CreateBucket", "s3:PutBucketPublicAccessBlock"],
              `arn:aws:s3:::${names}`,
            ),
          ]
        : []),
    ],
  };
}

const READS = /:(?:Get|List|Describe|BatchGet|BatchCheck|Simulate|Filter)/;

/** The part of a policy that changes nothing and reads no values of secrets. */
export function readOnly({ Statement }: { readonly Statement: readonly Statement[] }): {
  Statement: Statement[];
} {
  const kept = Statement.map((one) => ({
    ...one,
    Action: [one.Action]
      .flat()
      .filter((name) => READS.test(name) && name !== "secretsmanager:GetSecretValue"),
  }));
  return { Statement: kept.filter(({ Action }) => Action.length > 0) };
}
