import { stringify } from "yaml";
import { commandsOf, type Pipeline, type PipelineJob } from "./model.ts";
import { ID_TOKEN, type PipelineRight, type TrustedJobs } from "./pipeline.ts";

const DOCKER = "docker:28-dind";
const MERGE_REQUEST = '$CI_PIPELINE_SOURCE == "merge_request_event"';

/** Whose tokens may use a right. */
export function gitlabJobs(
  { repository, branch }: Pick<Pipeline, "repository" | "branch">,
  right: PipelineRight,
): TrustedJobs {
  const issuer = `https://${repository.host}`;
  return {
    issuer,
    audience: issuer,
    repository,
    repositoryClaim: "project_path",
    subject: `project_path:${repository.path}:ref_type:branch:ref:${right === "deploy" ? branch : "*"}`,
  };
}

/** The pipeline as text. */
export function gitlabPipeline(pipeline: Pipeline): string {
  const { branch, environment, jobs, nodeVersion } = pipeline;
  const commands = commandsOf(pipeline);
  const preview = jobs.preview;
  const name = "preview/$CI_MERGE_REQUEST_IID";
  const onBranch = { SVC_BRANCH: "$CI_MERGE_REQUEST_SOURCE_BRANCH_NAME" };
  const previewHead = (job: PipelineJob) => ({
    ...jobHead(pipeline, job),
    variables: { ...variables(job), ...onBranch },
    resource_group: "svc-preview-$CI_MERGE_REQUEST_IID",
  });
  return stringify(
    {
      stages: ["plan", "deploy"],
      default: { image: `node:${nodeVersion}-alpine` },
      plan: {
        stage: "plan",
        rules: [{ if: MERGE_REQUEST }],
        ...jobHead(pipeline, jobs.plan, false),
        script: [commands.plan],
      },
      deploy: {
        stage: "deploy",
        rules: [{ if: `$CI_COMMIT_BRANCH == "${branch}" && $CI_PIPELINE_SOURCE != "schedule"` }],
        ...jobHead(pipeline, jobs.deploy),
        environment: { name: environment },
        resource_group: `svc-${environment}`,
        script: [commands.deploy],
      },
      ...(preview && {
        preview: {
          stage: "deploy",
          rules: [{ if: MERGE_REQUEST }],
          ...previewHead(preview),
          environment: { name, on_stop: "remove-preview", auto_stop_in: "7 days" },
          script: commands.preview,
        },
        "remove-preview": {
          stage: "deploy",
          rules: [{ if: MERGE_REQUEST, when: "manual", allow_failure: true }],
          ...previewHead(preview),
          environment: { name, action: "stop" },
          script: commands.remove,
        },
      }),
    },
    { lineWidth: 0, aliasDuplicateObjects: false },
  );
}

function jobHead({ folder, install }: Pipeline, job: PipelineJob, builds = true) {
  const { login } = job;
  const docker = builds && login.needsDocker;
  const env = variables(job, docker);
  return {
    ...(docker ? { services: [DOCKER] } : {}),
    ...(Object.keys(env).length === 0 ? {} : { variables: env }),
    ...(login.federated ? { id_tokens: { [ID_TOKEN]: { aud: "$CI_SERVER_URL" } } } : {}),
    before_script: [
      `apk add --no-cache git${docker ? " docker-cli docker-cli-buildx" : ""}`,
      ...(folder === "" ? [] : [`cd ${folder}`]),
      ...install,
      ...(login.script ?? []),
    ],
  };
}

/** Variables of the project are in the environment of each of its jobs: only those of the login are named. */
function variables({ login }: PipelineJob, docker = login.needsDocker): Record<string, string> {
  return {
    ...login.env,
    ...(docker
      ? {
          DOCKER_HOST: "tcp://docker:2376",
          DOCKER_TLS_VERIFY: "1",
          DOCKER_TLS_CERTDIR: "/certs",
          DOCKER_CERT_PATH: "/certs/client",
        }
      : {}),
  };
}
