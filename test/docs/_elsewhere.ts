/** A command line that the test of the commands does not run, why, and what runs it with other names. */
export interface Elsewhere {
  readonly why: string;
  /** File and title of the test; none where the command is another program's. */
  readonly test?: readonly [file: string, title: string];
}

const OTHER = "a program of others: what it does is not ours";
const INSTALL = "it installs what others publish; the versions are those of package.json";

const sameAs = (test: Elsewhere["test"], why: string, ...lines: string[]) =>
  Object.fromEntries(lines.map((line) => [line, { why, ...(test && { test }) }]));

/** By command line, as the pages show it. */
export const ELSEWHERE: Readonly<Record<string, Elsewhere>> = {
  ...sameAs(
    ["test/cli/encryption.test.ts", "the commands on data take the keys from the variable"],
    "each key is another one",
    "openssl rand -base64 32",
    "export SERVICE_ENCRYPTION_KEYS=NEW,FORMER",
    "svc store move --from data --to data-new",
  ),
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
    [
      "test/deploy/database.test.ts",
      "is deployed to prod without a warning of lost jobs, and may have several instances",
    ],
    "the database is one that a cloud reaches",
    "export SERVICE_DATABASE_URL=postgres://user:password@db.example.com:5432/agents",
  ),
  ...sameAs(
    [
      "test/deploy/server-database.test.ts",
      "has its jobs over updates, a new image of the database, and a removal; the last command removes all",
    ],
    "the image of the database is in a registry of others",
    "npx svc deploy up --platform server --host me@server.example --postgres postgres:17 --generate-api-key --generate-rsa",
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
      "test/deploy/server-proxy.test.ts",
      "is served over HTTPS by a shared Caddy, and an update loses no request",
    ],
    "it needs the ports 80 and 443; run with others on this machine",
    "npx svc deploy up --platform server --host me@server.example --domain agents.example.com",
  ),
  ...sameAs(
    [
      "test/deploy/server-backup.test.ts",
      "bring back what was there, to a folder and a storage; a kill in between lets no service start",
    ],
    "it needs a bucket that a server reaches; run with one on this machine",
    "npx svc deploy backup --env prod --to s3://agents-backup/production?region=eu-central-1",
  ),
  ...sameAs(
    [
      "test/deploy/ssh-docker.test.ts",
      "deploys, changes, rolls an unhealthy release back and removes what it created",
    ],
    "it needs a project whose plugin adds the platform; run with the one of the example",
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
    [
      "test/cli/access.test.ts",
      "svc access makes, lists, rotates and removes keys; the key alone is on standard output",
    ],
    "its agent is one of the examples; run with another one",
    "svc access add billing --role starter --agents invoice-audit --expires 90d",
  ),
  ...sameAs(
    ["test/deploy/deploy-file.test.ts", "writes a file that every later command reads, and that is valid"],
    "it asks for the platform and what that needs",
    "npx svc deploy init",
  ),
  ...sameAs(
    [
      "test/cli/job-files.test.ts",
      "svc job uploads what a field names, lists the files of a job and downloads one",
    ],
    "its agent is the page's example; run with another one",
    "npx svc job start contract-reader --field contract=@contract.txt --wait",
    "npx svc job files job-1a2b3c4d",
    "npx svc job files job-1a2b3c4d --get report.csv",
  ),
};

/** Variables that the test of the commands does not set, with the test that does. */
export const VARIABLES_ELSEWHERE: Readonly<Record<string, Elsewhere>> = {
  ...sameAs(
    ["test/cli/encryption.test.ts", "the commands on data take the keys from the variable"],
    "each key is another one",
    "SERVICE_ENCRYPTION_KEYS",
  ),
  ...sameAs(
    ["test/cli/rotated-keys.test.ts", "SERVICE_PREVIOUS_RSA_PRIVATE_KEY"],
    "a service is started with a new key beside it",
    "SERVICE_PREVIOUS_RSA_PRIVATE_KEY",
  ),
  ...sameAs(
    ["test/deploy/rotate-key.test.ts", "SERVICE_RSA_PRIVATE_KEY_3"],
    "is replaced under the next number, again and again, and all of before stay",
    ...["SERVICE_RSA_PRIVATE_KEY_2", "SERVICE_RSA_PRIVATE_KEY_3"],
  ),
  ...sameAs(
    ["test/http/files.test.ts", "the limits are those that variables or options say"],
    "they are read and checked as the other numbers are",
    "SERVICE_FILE_LIMIT",
    "SERVICE_JOB_FILES_LIMIT",
    "SERVICE_WORKSPACE_FILES_LIMIT",
  ),
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
    "OTEL_METRIC_EXPORT_INTERVAL",
    "OTEL_METRIC_EXPORT_TIMEOUT",
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
  ...sameAs(
    ["test/instances/store-owner.test.ts", "SERVICE_ADOPT_STORE"],
    "it concerns two services with one store; their options are tried",
    "SERVICE_ADOPT_STORE",
    "SERVICE_DATABASE_SCHEMA",
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
