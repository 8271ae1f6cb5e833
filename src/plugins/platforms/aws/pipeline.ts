import {
  ID_TOKEN,
  ownVariable,
  type PipelineLogin,
  type PipelineRequest,
  type PipelineRight,
  setVariable,
  type TrustedJobs,
} from "../../../deploy/ci/pipeline.ts";
import { deployPolicy, type Runner, readOnly } from "./policy.ts";

const AUTH = "aws-actions/configure-aws-credentials@00943011d9042930efac3dcd3a170e4273319bc8 # v5.1.0";
/** Start of the variable of the repository with the number of the account. */
const ACCOUNT = "SVC_AWS_ACCOUNT";

/** How a job signs in to AWS: its token is exchanged for one of a role. */
export function pipelineLogin(request: PipelineRequest<unknown>, runner: Runner): PipelineLogin {
  const { provider, name, right, region } = request;
  const variable = ownVariable(request, ACCOUNT);
  // No service has a dot in its name: no policy by names of services covers these roles.
  const role = `pipeline.${name}.${right}`;
  const arn = (account: string) => `arn:aws:iam::${account}:role/${role}`;
  const common = {
    federated: true,
    needsDocker: true,
    setup: setupOf(request, runner, role),
    notes: notesOf(request, runner),
  };
  if (provider === "github")
    return {
      ...common,
      steps: [
        { uses: AUTH, with: { "role-to-assume": arn(`\${{ vars.${variable} }}`), "aws-region": region } },
      ],
    };
  return {
    ...common,
    env: {
      AWS_REGION: region,
      AWS_ROLE_ARN: arn(`$${variable}`),
      AWS_ROLE_SESSION_NAME: "gitlab-$CI_JOB_ID",
    },
    script: [
      'export AWS_WEB_IDENTITY_TOKEN_FILE="$(mktemp)"',
      `printf %s "$${ID_TOKEN}" > "$AWS_WEB_IDENTITY_TOKEN_FILE"`,
    ],
  };
}

function setupOf(request: PipelineRequest<unknown>, runner: Runner, role: string): string[] {
  const { trusted, right, name, environment, projectId } = request;
  const names = `${name}-${environment}*`;
  const policy = deployPolicy("$ACCOUNT", names, runner, { withBucket: request.storage !== undefined });
  const document = right === "plan" ? readOnly(policy) : policy;
  return [
    `# ${TITLES[right]}${projectId === undefined ? "" : `: log in to the account ${projectId} first`}. "EntityAlreadyExists" is fine.`,
    "ACCOUNT=$(aws sts get-caller-identity --query Account --output text)",
    `aws iam create-open-id-connect-provider --url ${trusted.issuer} --client-id-list ${trusted.audience}`,
    `aws iam create-role --role-name ${role} --assume-role-policy-document ${json(trustOf(trusted))}`,
    `aws iam put-role-policy --role-name ${role} --policy-name svc --policy-document ${json({ Version: "2012-10-17", ...document })}`,
    setVariable(request, ownVariable(request, ACCOUNT), "$ACCOUNT"),
  ];
}

/** A document as one argument of a shell, which expands the account in it. */
function json(document: object): string {
  return `"$(cat <<JSON\n${JSON.stringify(document)}\nJSON\n)"`;
}

/** Who may become a role: the jobs of one repository, by their audience and subject. */
function trustOf({ issuer, audience, subject }: TrustedJobs): object {
  const host = issuer.replace("https://", "");
  const matches = subject.endsWith("*") ? "StringLike" : "StringEquals";
  const condition = { StringEquals: { [`${host}:aud`]: audience } } as Record<string, Record<string, string>>;
  condition[matches] = { ...condition[matches], [`${host}:sub`]: subject };
  return {
    Version: "2012-10-17",
    Statement: [
      {
        Effect: "Allow",
        Principal: { Federated: `arn:aws:iam::$ACCOUNT:oidc-provider/${host}` },
        Action: "sts:AssumeRoleWithWebIdentity",
        Condition: condition,
      },
    ],
  };
}

const TITLES: Readonly<Record<PipelineRight, string>> = {
  plan: "The role of plans, which may only read",
  deploy: "The role of deployments",
  preview: "The role of previews",
};

function notesOf({ right }: PipelineRequest<unknown>, runner: Runner): string[] {
  if (right !== "preview") return [];
  const service = runner === "ecs" ? "ECS" : "App Runner";
  return [
    `The role of previews is limited to their names for images, secrets and roles, but not for the calls of ${service}: give previews an account of their own if those who may push a branch must not change other services`,
  ];
}
