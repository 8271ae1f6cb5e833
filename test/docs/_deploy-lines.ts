/** A command line of the pages that is typed into a shell of a user of an emulated cloud. */
export interface DeployLine {
  readonly line: string;
  /** What it prints. */
  readonly prints?: RegExp;
  /** Files of the project that it reads. */
  readonly files?: Readonly<Record<string, string>>;
  /** Where it asks before it removes something, `--yes` answers. */
  readonly asks?: true;
}

/** What a user does with one cloud, line by line. */
export interface DeploySession {
  readonly title: string;
  readonly platform: string;
  readonly region?: string;
  /** Whether the machines of the cloud reach its bucket. */
  readonly bucket?: true;
  readonly lines: readonly DeployLine[];
}

const UP = /is up and healthy/;
const cloudRun = (more = "") =>
  `platform: cloud-run\nregion: us-central1\nprojectId: demo-project\ngenerateApiKey: true\n${more}`;

/** Each runs in a project of its own. */
export const DEPLOY_SESSIONS: readonly DeploySession[] = [
  {
    title: "Cloud Run, by options",
    platform: "cloud-run",
    lines: [
      { line: "npx svc deploy doctor --platform cloud-run --project-id my-project", prints: /credentials/i },
      { line: "svc deploy up --platform cloud-run --project-id my-project --generate-api-key", prints: UP },
      {
        line: "npx svc deploy up --platform cloud-run --project-id my-project --generate-api-key --generate-rsa",
        prints: UP,
      },
      {
        line: "npx svc deploy up --platform cloud-run --generate-api-key --generate-rsa",
        prints: /is up to date and healthy/,
      },
    ],
  },
  {
    title: "Cloud Run, by deploy.yaml",
    platform: "cloud-run",
    lines: [
      {
        line: "npx svc deploy plan",
        files: { "deploy.yaml": cloudRun("environments:\n  prod: { store: file }\n  preview-*: {}\n") },
        prints: /CREATE/,
      },
      { line: "npx svc deploy up", prints: UP },
      { line: "npx svc deploy up --env prod", prints: UP },
      { line: "npx svc deploy up --env preview-login --expires 7d", prints: UP },
      { line: "npx svc deploy list", prints: /preview-login/ },
      { line: "npx svc deploy down --expired", asks: true },
      { line: "npx svc deploy export compose --to ../compose.yaml", prints: /compose\.yaml/ },
      { line: "npx svc deploy export cloud-run --to ../service.yaml", prints: /service\.yaml/ },
      { line: "npx svc deploy export terraform --to ../service.tf", prints: /service\.tf/ },
    ],
  },
  {
    title: "Cloud Run, with a bucket",
    platform: "cloud-run",
    bucket: true,
    lines: [
      {
        line: "npx svc deploy up --platform cloud-run --storage create --generate-api-key --generate-rsa",
        prints: UP,
      },
      {
        line: "npx svc deploy up --drain 10m",
        files: {
          "deploy.yaml": cloudRun("storage: create\nvariables:\n  GREETING: good day\n"),
        },
        prints: UP,
      },
    ],
  },
  {
    title: "App Platform",
    platform: "do-app-platform",
    lines: [
      { line: "export DIGITALOCEAN_ACCESS_TOKEN=…" },
      { line: "export SERVICE_API_KEY=$(openssl rand -hex 32)" },
      { line: "svc deploy up --platform do-app-platform", prints: UP },
      { line: "npx svc deploy up --platform do-app-platform --region fra --generate-rsa", prints: UP },
    ],
  },
  {
    title: "ECS Express Mode in Frankfurt",
    platform: "aws-ecs-express",
    region: "eu-central-1",
    lines: [
      {
        line: "svc deploy up --platform aws-ecs-express --region eu-central-1 --generate-api-key",
        prints: UP,
      },
    ],
  },
  {
    title: "ECS Express Mode in Ireland",
    platform: "aws-ecs-express",
    region: "eu-west-1",
    lines: [
      {
        line: "npx svc deploy up --platform aws-ecs-express --region eu-west-1 --generate-api-key --generate-rsa",
        prints: UP,
      },
      {
        line: "npx svc deploy export cloudformation --to ../service.yaml",
        files: { "deploy.yaml": "platform: aws-ecs-express\nregion: eu-west-1\n" },
        prints: /service\.yaml/,
      },
    ],
  },
];

/** The same for a server that is reached by ssh. */
export const SERVER_LINES: readonly (DeployLine & { readonly prints: RegExp })[] = [
  { line: "npx svc deploy setup --platform server --host me@server.example", prints: /docker/i },
  {
    line: "npx svc deploy up --platform server --host me@server.example --generate-api-key",
    prints: UP,
  },
  { line: "npx svc deploy status --platform server --host me@server.example", prints: /healthy/ },
  { line: "npx svc deploy logs --platform server --host me@server.example --follow", prints: /listening/ },
  {
    line: "npx svc deploy backup --platform server --host me@server.example --to backups/monday",
    prints: /backups\/monday/,
  },
  {
    line: "npx svc deploy restore --platform server --host me@server.example --from backups/monday",
    ...{ asks: true, prints: /is healthy/ },
  },
];

/** What a page shows for something of the reader, and what it is here. */
const OWN: Readonly<Record<string, string>> = {
  "my-project": "demo-project",
  "me@server.example": "server",
  "…": "lab-do-token",
};

/** A line with what is the reader's own. */
export function filled(line: string): string {
  return Object.entries(OWN).reduce((text, [shown, own]) => text.replaceAll(shown, own), line);
}

/** The command lines that deployments of the tests run. */
export const RUN_BY_DEPLOYMENTS: ReadonlySet<string> = new Set(
  [...DEPLOY_SESSIONS.flatMap(({ lines }) => lines), ...SERVER_LINES].map(({ line }) => line),
);
