/** A command line that the test of the commands does not run, why, and what runs it with other names. */
export interface Elsewhere {
  readonly why: string;
  /** File and title of the test; none where the command is another program's. */
  readonly test?: readonly [file: string, title: string];
}

const CLOUD = "it needs an account of the cloud; run with an emulated one";
const FLOW = ["test/platforms/flow.test.ts", "from the first plan to the last removal"] as const;
const SERVER = "it needs a server that is reached by ssh; run with one on this machine";
const UPDATES = [
  "test/deploy/server.test.ts",
  "keeps a job open over three updates, a rollback and a removal, from any checkout",
] as const;
const OTHER = "a program of others: what it does is not ours";
const INSTALL = "it installs what others publish; the versions are those of package.json";

const sameAs = (test: Elsewhere["test"], why: string, ...lines: string[]) =>
  Object.fromEntries(lines.map((line) => [line, { why, ...(test && { test }) }]));

/** By command line, as the pages show it. */
export const ELSEWHERE: Readonly<Record<string, Elsewhere>> = {
  ...sameAs(
    ["test/examples.test.ts", "are served together by npm start"],
    "it is for a clone of the repository, whose checks it runs",
    "npm ci && npm start",
    "npm ci && npm test",
  ),
  ...sameAs(
    undefined,
    INSTALL,
    "npm install @a2a-js/sdk@1",
    "npm install @modelcontextprotocol/server@2",
    "npm install @modelcontextprotocol/client@2",
    "npm install --save-dev google-auth-library@10",
    "npm install --save-dev @aws-sdk/client-ecs @aws-sdk/client-ecr @aws-sdk/client-iam @aws-sdk/client-secrets-manager @aws-sdk/client-sts @aws-sdk/client-cloudwatch-logs",
  ),
  ...sameAs(
    undefined,
    OTHER,
    "gcloud auth application-default login",
    "gcloud run revisions list --service hello-prod --region us-central1",
    "gcloud run services update-traffic hello-prod --region us-central1 --to-revisions hello-prod-00007-abc=100",
    "doctl auth init",
    "aws configure",
    "docker buildx build --file .deployment/Dockerfile --sbom=true --provenance=mode=max \\\n  --push --tag $IMAGE:$GIT_SHA --metadata-file image.json .",
  ),
  ...sameAs(
    FLOW,
    CLOUD,
    "svc deploy up --platform cloud-run --project-id my-project --generate-api-key",
    "svc deploy up --platform do-app-platform",
    "svc deploy up --platform aws-ecs-express --region eu-central-1 --generate-api-key",
    "npx svc deploy plan",
    "npx svc deploy up",
    "npx svc deploy up --env prod",
    "npx svc deploy up --platform cloud-run --project-id my-project --generate-api-key --generate-rsa",
    "npx svc deploy doctor --platform cloud-run --project-id my-project",
    "npx svc deploy up --platform aws-ecs-express --region eu-west-1 --generate-api-key --generate-rsa",
    "npx svc deploy up --platform do-app-platform --region fra --generate-rsa",
    "npx svc deploy up --platform cloud-run --generate-api-key --generate-rsa",
    "export DIGITALOCEAN_ACCESS_TOKEN=…",
    "export SERVICE_API_KEY=$(openssl rand -hex 32)",
    "export SERVICE_DATABASE_URL=postgres://user:password@db.example.com:5432/agents",
  ),
  ...sameAs(
    [
      "test/platforms/bucket-store.test.ts",
      "continues jobs with an open question over a deployment and a rollback, and keeps the bucket to the end",
    ],
    CLOUD,
    "npx svc deploy up --platform cloud-run --storage create --generate-api-key --generate-rsa",
  ),
  ...sameAs(
    [
      "test/platforms/bucket-store.test.ts",
      "--drain lets running jobs end before the service is replaced, and new ones wait for the next release",
    ],
    CLOUD,
    "npx svc deploy up --drain 10m",
  ),
  ...sameAs(
    [
      "test/platforms/given-image.test.ts",
      "releases an image as it is, once, and the next release without it builds again",
    ],
    "it releases an image that somebody built; run with one of an emulated registry",
    "npx svc deploy up --env prod --image-ref europe-docker.pkg.dev/my-project/agents/hello@sha256:4f2a…",
    `npx svc deploy up --env prod --image-ref "$IMAGE@$(jq -r '."containerimage.digest"' image.json)"`,
  ),
  ...sameAs(
    [
      "test/platforms/pipeline.test.ts",
      "the lines of the GitHub workflow deploy, plan, preview and remove, from fresh clones",
    ],
    "it needs a repository with a code host; run for one of a test, with its workflow",
    "npx svc deploy ci github --env prod",
  ),
  ...sameAs(
    [
      "test/deploy/expiry.test.ts",
      "are listed as the platform knows them, from any checkout, with what is over its time",
    ],
    CLOUD,
    "npx svc deploy list",
    "npx svc deploy up --env preview-login --expires 7d",
  ),
  ...sameAs(
    ["test/deploy/expiry.test.ts", "that are over their time are removed, and no other"],
    CLOUD,
    "npx svc deploy down --expired",
  ),
  ...sameAs(
    [
      "test/deploy/server-setup.test.ts",
      "installs Docker on a bare machine, after consent, and changes nothing the second time",
    ],
    SERVER,
    "npx svc deploy setup --platform server --host me@server.example",
  ),
  ...sameAs(
    UPDATES,
    SERVER,
    "npx svc deploy up --platform server --host me@server.example --generate-api-key",
    "npx svc deploy status --platform server --host me@server.example",
    "npx svc deploy logs --platform server --host me@server.example --follow",
  ),
  ...sameAs(
    [
      "test/deploy/server-proxy.test.ts",
      "is served over HTTPS by a shared Caddy, and an update loses no request",
    ],
    SERVER,
    "npx svc deploy up --platform server --host me@server.example --domain agents.example.com",
  ),
  ...sameAs(
    [
      "test/deploy/server-backup.test.ts",
      "bring back what was there, to a folder and a storage; a kill in between lets no service start",
    ],
    SERVER,
    "npx svc deploy backup --platform server --host me@server.example --to backups/monday",
    "npx svc deploy backup --env prod --to s3://agents-backup/production?region=eu-central-1",
    "npx svc deploy restore --platform server --host me@server.example --from backups/monday",
  ),
  ...sameAs(
    [
      "test/deploy/ssh-docker.test.ts",
      "deploys, changes, rolls an unhealthy release back and removes what it created",
    ],
    SERVER,
    "npx svc deploy up --platform ssh-docker --host ssh://me@server.example --address server.example --generate-api-key",
  ),
  ...sameAs(
    [
      "test/deploy/real-local.test.ts",
      "svc init, svc deploy local and a job work, and nothing is left after --stop",
    ],
    "its container is in the network of the engine, where the port may be in use",
    "npx svc deploy local",
  ),
  ...sameAs(
    ["test/deploy/export.test.ts", "writes what up would release, without a secret, and changes nothing"],
    CLOUD,
    "npx svc deploy export compose --to ../compose.yaml",
  ),
  ...sameAs(
    ["test/deploy/deploy-file.test.ts", "writes a file that every later command reads, and that is valid"],
    "it asks for the platform and what that needs",
    "npx svc deploy init",
  ),
  ...sameAs(
    ["test/platforms/exports.test.ts", "describes what up releases, without a secret, and changes nothing"],
    CLOUD,
    "npx svc deploy export cloud-run --to ../service.yaml",
    "npx svc deploy export terraform --to ../service.tf",
    "npx svc deploy export cloudformation --to ../service.yaml",
  ),
};

/** Variables that the test of the commands does not set, with the test that does. */
export const VARIABLES_ELSEWHERE: Readonly<Record<string, Elsewhere>> = {
  ...sameAs(
    ["test/events/otel-sampling.test.ts", ""],
    "the exporter or the sampler reads it",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
  ),
  ...sameAs(
    undefined,
    "OpenTelemetry's own packages read it",
    "OTEL_METRICS_EXPORTER",
    "OTEL_RESOURCE_ATTRIBUTES",
    "OTEL_SDK_DISABLED",
    "OTEL_SERVICE_NAME",
    "OTEL_TRACES_EXPORTER",
  ),
  ...sameAs(["test/platforms/image-tags.test.ts", "SVC_CONTEXT"], "svc sets it on a release", "SVC_CONTEXT"),
  ...sameAs(["test/deploy/expiry.test.ts", "SVC_EXPIRES"], "svc sets it on a release", "SVC_EXPIRES"),
  ...sameAs(["test/deploy/ci.test.ts", "SVC_COMMENT_TOKEN"], "a pipeline sets it", "SVC_COMMENT_TOKEN"),
  ...sameAs(["test/cli/start.test.ts", "SVC_DEV_WORKER"], "svc dev sets it", "SVC_DEV_WORKER"),
  ...sameAs(
    ["test/deploy/ci.test.ts", "secrets that they need"],
    "it is a variable of a repository, named after the service",
    "SVC_GOOGLE_PROVIDER__HELLO__PROD",
    "SVC_AWS_ACCOUNT__HELLO__PREVIEW",
  ),
  ...sameAs(
    undefined,
    "it names the code, which only the answers of the API and the pages show",
    "SERVICE_BUILD",
  ),
  ...sameAs(undefined, "svc sets it on a release", "SVC_RELEASE"),
  ...sameAs(undefined, "svc sets it on an app of App Platform, and reads it", "SVC_DEPLOYMENT"),
  ...sameAs(["test/store/kill.test.ts", "SVC_KILL_ROUNDS"], "the long tests read it", "SVC_KILL_ROUNDS"),
  ...sameAs(["test/store/simulation.test.ts", "SVC_SIM_SEEDS"], "the long tests read it", "SVC_SIM_SEEDS"),
  ...sameAs(
    ["test/store/bucket-owners.test.ts", "SVC_INTERRUPTIONS"],
    "the long tests read it",
    "SVC_INTERRUPTIONS",
  ),
};
