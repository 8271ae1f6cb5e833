import { Document, isScalar, visit } from "yaml";
import { commandsOf, type Pipeline, type PipelineJob } from "./model.ts";
import type { PipelineRight, TrustedJobs } from "./pipeline.ts";

// A tag can be moved; a commit cannot.
const CHECKOUT = "actions/checkout@08c6903cd8c0fde910a37f88322edcfb5dd907a8 # v5.0.0";
const SETUP_NODE = "actions/setup-node@a0853c24544627f65ddf259abe73b1d18a591444 # v5.0.0";

const ISSUER = "https://token.actions.githubusercontent.com";
/** The environment of the repository that previews run in: their tokens name it. */
const PREVIEWS = "preview";

/** A pull request of the repository itself: one from a fork gets neither tokens nor secrets. */
const OWN_PULL_REQUEST =
  "github.event_name == 'pull_request' && github.event.pull_request.head.repo.full_name == github.repository";

/** Whose tokens may use a right. */
export function githubJobs(
  { repository, environment }: Pick<Pipeline, "repository" | "environment">,
  right: PipelineRight,
): TrustedJobs {
  const subjects = {
    plan: "pull_request",
    deploy: `environment:${environment}`,
    preview: `environment:${PREVIEWS}`,
  };
  return {
    issuer: repository.host === "github.com" ? ISSUER : `https://${repository.host}/_services/token`,
    audience: "sts.amazonaws.com",
    repository,
    repositoryClaim: "repository",
    subject: `repo:${repository.path}:${subjects[right]}`,
  };
}

/** The workflow as text. */
export function githubWorkflow(pipeline: Pipeline): string {
  const { branch, environment, folder, jobs } = pipeline;
  const commands = commandsOf(pipeline);
  const onBranch = { SVC_BRANCH: expression("github.head_ref") };
  const lines = (list: readonly string[]) => list.join("\n");
  const preview = jobs.preview;
  return toText({
    name: "Deploy",
    on: {
      push: { branches: [branch] },
      pull_request: {
        branches: [branch],
        types: ["opened", "synchronize", "reopened", ...(preview ? ["closed"] : [])],
      },
      ...(preview ? { schedule: [{ cron: "23 * * * *" }] } : {}),
    },
    permissions: {},
    ...(folder === "" ? {} : { defaults: { run: { "working-directory": folder } } }),
    jobs: {
      plan: {
        if: `${OWN_PULL_REQUEST} && github.event.action != 'closed'`,
        ...jobHead(jobs.plan, { "pull-requests": "write" }),
        concurrency: {
          group: `svc-plan-${expression("github.event.number")}`,
          "cancel-in-progress": true,
        },
        steps: [
          ...stepsOf(pipeline, jobs.plan),
          {
            name: "Plan",
            run: commands.plan,
            env: { ...jobs.plan.login.env, GITHUB_TOKEN: expression("github.token") },
          },
        ],
      },
      deploy: {
        if: `github.event_name == 'push' && github.ref == 'refs/heads/${branch}'`,
        ...jobHead(jobs.deploy),
        environment,
        concurrency: { group: `svc-${environment}`, "cancel-in-progress": false },
        steps: [
          ...stepsOf(pipeline, jobs.deploy),
          { name: "Deploy", run: commands.deploy, ...variables(jobs.deploy) },
        ],
      },
      ...(preview && {
        preview: {
          if: `${OWN_PULL_REQUEST} && github.event.action != 'closed'`,
          ...previewHead(preview),
          steps: [
            ...stepsOf(pipeline, preview),
            { name: "Deploy preview", run: lines(commands.preview), ...variables(preview, onBranch) },
          ],
        },
        "expired-previews": {
          if: "github.event_name == 'schedule'",
          ...jobHead(preview),
          environment: PREVIEWS,
          concurrency: { group: "svc-expired-previews", "cancel-in-progress": false },
          steps: [
            ...stepsOf(pipeline, preview),
            { name: "Remove expired previews", run: commands.expire, ...variables(removal(preview)) },
          ],
        },
        "remove-preview": {
          if: `${OWN_PULL_REQUEST} && github.event.action == 'closed'`,
          ...previewHead(preview),
          steps: [
            ...stepsOf(pipeline, preview),
            { name: "Remove preview", run: lines(commands.remove), ...variables(removal(preview), onBranch) },
          ],
        },
      }),
    },
  });
}

/** YAML, with the tag of an action as the comment beside its commit. */
function toText(workflow: object): string {
  const document = new Document(workflow, { aliasDuplicateObjects: false });
  visit(document, {
    Pair(_, { key, value }) {
      if (!isScalar(key) || key.value !== "uses" || !isScalar(value)) return;
      const [action, tag] = String(value.value).split(" # ");
      value.value = action;
      if (tag !== undefined) value.comment = ` ${tag}`;
    },
  });
  return document.toString({ lineWidth: 0 });
}

/** Lines that limit an environment of the repository to a branch: without them, any branch could use its rights. */
export function githubSetup({
  repository,
  environment,
  branch,
}: Pick<Pipeline, "repository" | "environment" | "branch">): string[] {
  const host = repository.host === "github.com" ? "" : ` --hostname ${repository.host}`;
  const path = `repos/${repository.path}/environments/${environment}`;
  return [
    `# On GitHub: only the branch ${branch} may use the environment ${environment}.`,
    `gh api${host} --method PUT ${path} --input - <<'JSON'\n{"deployment_branch_policy": {"protected_branches": false, "custom_branch_policies": true}}\nJSON`,
    `gh api${host} --method POST ${path}/deployment-branch-policies --raw-field name=${branch}`,
  ];
}

function expression(text: string): string {
  return `\${{ ${text} }}`;
}

function jobHead({ login }: PipelineJob, more: Readonly<Record<string, string>> = {}) {
  return {
    "runs-on": "ubuntu-latest",
    permissions: { contents: "read", ...(login.federated ? { "id-token": "write" } : {}), ...more },
  };
}

function previewHead(job: PipelineJob) {
  return {
    ...jobHead(job),
    environment: PREVIEWS,
    // A removal waits for the deployment of the same branch.
    concurrency: {
      group: `svc-preview-${expression("github.event.number")}`,
      "cancel-in-progress": false,
    },
  };
}

function stepsOf({ nodeVersion, manager, lockFile, install }: Pipeline, { login }: PipelineJob): object[] {
  const cache = manager === "npm" ? { cache: manager, "cache-dependency-path": lockFile } : {};
  return [
    { uses: CHECKOUT, with: { "persist-credentials": false } },
    { uses: SETUP_NODE, with: { "node-version": nodeVersion, ...cache } },
    ...install.map((command) => ({ run: command })),
    ...(login.steps ?? []),
  ];
}

/** A job that only removes. */
const removal = (job: PipelineJob): PipelineJob => ({ ...job, secrets: job.removalSecrets });

/** Variables of a step: those of the login, and secrets of the repository. An unset secret is empty, and so is unknown. */
function variables({ login, secrets }: PipelineJob, more: Readonly<Record<string, string>> = {}) {
  const env = {
    ...more,
    ...login.env,
    ...Object.fromEntries(secrets.map((name) => [name, expression(`secrets.${name}`)])),
  };
  return Object.keys(env).length === 0 ? {} : { env };
}
