import {
  ID_TOKEN,
  ownVariable,
  type PipelineLogin,
  type PipelineRequest,
  type PipelineRight,
  setVariable,
} from "../../../deploy/ci/pipeline.ts";
import { shortName } from "../../../deploy/ci/short-name.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { CloudRunFlags } from "./flags.ts";
import { rolePermissions } from "./permissions.ts";

const AUTH = "google-github-actions/auth@7c6bc770dae815cd3e89ee6cdf493a5fab2cc093 # v3.0.0";
/** Start of the variable of the repository with the full name of the identity provider. */
const PROVIDER = "SVC_GOOGLE_PROVIDER";
/** Longest part of an account's name; the right follows it. */
const LONGEST = 20;

/** How a job signs in to Google Cloud: its token is exchanged for one of a service account. */
export function pipelineLogin(request: PipelineRequest<CloudRunFlags>): PipelineLogin {
  const { provider, projectId, flags } = request;
  if (projectId === undefined)
    throw new DeployError("usage", "The project of Google Cloud is unknown", {
      detail: "A pipeline has no settings of gcloud",
      outcome: "Nothing was written",
      fix: "Write it into deploy.yaml: projectId: my-project",
    });
  const account = `${shortName(request.name, LONGEST)}-${request.right}@${projectId}.iam.gserviceaccount.com`;
  const variable = ownVariable(request, PROVIDER);
  const common = {
    federated: true,
    needsDocker: flags.useCloudBuild !== true,
    setup: setupOf(request, projectId, account),
    notes: notesOf(request),
  };
  if (provider === "github")
    return {
      ...common,
      steps: [
        {
          uses: AUTH,
          with: {
            workload_identity_provider: `\${{ vars.${variable} }}`,
            service_account: account,
            project_id: projectId,
          },
        },
      ],
    };
  const credentials = {
    type: "external_account",
    audience: `//iam.googleapis.com/$${variable}`,
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    token_url: "https://sts.googleapis.com/v1/token",
    service_account_impersonation_url: `https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${account}:generateAccessToken`,
    credential_source: { file: "$SVC_LOGIN/token" },
  };
  return {
    ...common,
    script: [
      'SVC_LOGIN="$(mktemp -d)"',
      `printf %s "$${ID_TOKEN}" > "$SVC_LOGIN/token"`,
      `printf %s "${JSON.stringify(credentials).replaceAll('"', '\\"')}" > "$SVC_LOGIN/google.json"`,
      'export GOOGLE_APPLICATION_CREDENTIALS="$SVC_LOGIN/google.json"',
    ],
  };
}

/** Permissions of a job that changes nothing. Values of secrets are none of its business. */
const READS = /\.(?:get|list|getIamPolicy)$/;

function setupOf(request: PipelineRequest<CloudRunFlags>, project: string, account: string): string[] {
  const { provider, trusted, right, flags } = request;
  const { repository, repositoryClaim, issuer, subject } = trusted;
  const pool = `svc-${provider}`;
  const id = shortName(repository.path, 32);
  const permissions = rolePermissions(request).filter((one) => right !== "plan" || READS.test(one));
  const role = right === "plan" ? "svcPlan" : "svcDeploy";
  const member = subject.endsWith("*")
    ? `principalSet://iam.googleapis.com/$POOL/attribute.repository/${repository.path}`
    : `principal://iam.googleapis.com/$POOL/subject/${subject}`;
  const runtime = flags.serviceAccount ?? "$NUMBER-compute@developer.gserviceaccount.com";
  return [
    `# ${TITLES[right]}, in the project ${project}. "already exists" is fine.`,
    `PROJECT=${project}`,
    `NUMBER=$(gcloud projects describe "$PROJECT" --format 'value(projectNumber)')`,
    `POOL=projects/$NUMBER/locations/global/workloadIdentityPools/${pool}`,
    'gcloud services enable iam.googleapis.com iamcredentials.googleapis.com sts.googleapis.com cloudresourcemanager.googleapis.com --project "$PROJECT"',
    `gcloud iam workload-identity-pools create ${pool} --project "$PROJECT" --location global`,
    `gcloud iam workload-identity-pools providers create-oidc ${id} --project "$PROJECT" --location global --workload-identity-pool ${pool} --issuer-uri ${issuer} ${provider === "gitlab" ? `--allowed-audiences ${trusted.audience} ` : ""}--attribute-mapping 'google.subject=assertion.sub,attribute.repository=assertion.${repositoryClaim}' --attribute-condition "assertion.${repositoryClaim} == '${repository.path}'"`,
    `gcloud iam roles create ${role} --project "$PROJECT" --title 'svc ${right === "plan" ? "plan" : "deploy"}' --stage GA --permissions ${permissions.join(",")}`,
    `gcloud iam service-accounts create ${account.split("@")[0]} --project "$PROJECT"`,
    `gcloud projects add-iam-policy-binding "$PROJECT" --member serviceAccount:${account} --role "projects/$PROJECT/roles/${role}" --condition None`,
    ...(right === "plan"
      ? []
      : [
          `gcloud iam service-accounts add-iam-policy-binding "${runtime}" --project "$PROJECT" --member serviceAccount:${account} --role roles/iam.serviceAccountUser`,
        ]),
    `gcloud iam service-accounts add-iam-policy-binding ${account} --project "$PROJECT" --role roles/iam.workloadIdentityUser --member "${member}"`,
    setVariable(request, ownVariable(request, PROVIDER), `$POOL/providers/${id}`),
  ];
}

const TITLES: Readonly<Record<PipelineRight, string>> = {
  plan: "The account of plans, which may only read",
  deploy: "The account of deployments",
  preview: "The account of previews",
};

function notesOf({ right, projectId }: PipelineRequest<CloudRunFlags>): string[] {
  if (right !== "preview") return [];
  return [
    `Google's roles cannot be limited to the names of previews: who may push a branch could change every service of ${projectId}. Give previews a project of their own: projectId under environments, preview-*`,
  ];
}
