import type { Site } from "../flow/site.ts";
import type { Command } from "./command.ts";

/** One command in the life of a service, with what was edited before it. */
export interface LifeStep {
  readonly title: string;
  readonly command: Command["name"];
  /** How it ends where nothing disturbs it. */
  readonly outcome: string;
  /** Whether an instance range and a domain are asked for. */
  readonly settings?: boolean;
  /** Whether a larger machine is asked for. */
  readonly larger?: boolean;
  /** The service's key, as the environment gives it. */
  readonly apiKey: string;
  /** Other variables of the command. */
  readonly env?: Readonly<Record<string, string>>;
  /** Whether it is not killed. */
  readonly spared?: boolean;
  edit?(site: Site): void;
}

const FIRST_KEY = "planted-api-key-0123456789";
const SECOND_KEY = "another-api-key-9876543210";
const EXTERNAL = "store: external\n";

/** The lives of services whose commands are killed. */
export const LIVES: Readonly<Record<string, readonly LifeStep[]>> = {
  "bucket's": [
    {
      title: "up with a bucket",
      command: "up",
      outcome: "done",
      apiKey: FIRST_KEY,
      // Any text does for the other key, which the bucket needs too.
      edit: (site) =>
        site.write(
          "deploy.yaml",
          "storage: create\nsecrets: { SERVICE_RSA_PRIVATE_KEY: { env: SERVICE_API_KEY } }\n",
        ),
    },
    {
      title: "up with a new image",
      command: "up",
      outcome: "done",
      apiKey: FIRST_KEY,
      edit: (site) => site.write("src/controller.ts", "export default { version: 2 };\n"),
    },
    { title: "rollback", command: "rollback", outcome: "done", apiKey: FIRST_KEY },
    { title: "down", command: "down", outcome: "done", apiKey: FIRST_KEY },
  ],
  // Its jobs are in files that do not last, and each step changes one thing.
  rotating: [
    {
      title: "up",
      command: "up",
      outcome: "done",
      apiKey: FIRST_KEY,
      env: { PAY_TOKEN: "token-one" },
      spared: true,
      edit: (site) => site.write("deploy.yaml", "secrets: { PAY_TOKEN: }\n"),
    },
    {
      title: "up with a changed secret",
      command: "up",
      outcome: "done",
      apiKey: FIRST_KEY,
      env: { PAY_TOKEN: "token-two" },
    },
    {
      title: "up with a changed API key",
      command: "up",
      outcome: "done",
      apiKey: SECOND_KEY,
      // Only where the vault cannot be read is it needed.
      env: { PAY_TOKEN: "token-two", PREVIOUS_WHERE_NEEDED: FIRST_KEY },
    },
    {
      title: "up with a larger machine",
      command: "up",
      outcome: "done",
      apiKey: SECOND_KEY,
      env: { PAY_TOKEN: "token-two" },
      larger: true,
    },
  ],
  short: [
    { title: "up", command: "up", outcome: "done", apiKey: FIRST_KEY },
    { title: "down", command: "down", outcome: "done", apiKey: FIRST_KEY },
  ],
  long: [
    {
      title: "the first up",
      command: "up",
      outcome: "done",
      apiKey: FIRST_KEY,
      edit: (site) => site.write(".deployment/config.yaml", EXTERNAL),
    },
    {
      title: "up with a new image and a changed secret",
      command: "up",
      outcome: "done",
      apiKey: SECOND_KEY,
      edit: (site) => site.write("src/controller.ts", "export default { version: 2 };\n"),
    },
    {
      title: "up with a changed variable, an instance range and a domain",
      command: "up",
      outcome: "done",
      settings: true,
      apiKey: SECOND_KEY,
      edit: (site) =>
        site.write(".deployment/config.yaml", `${EXTERNAL}environment:\n  GREETING: good day\n`),
    },
    {
      title: "up with an image that does not start",
      command: "up",
      outcome: "3 rolled_back",
      settings: true,
      apiKey: SECOND_KEY,
      edit: (site) => site.write("src/controller.ts", "// crash at start\n"),
    },
    { title: "rollback", command: "rollback", outcome: "done", settings: true, apiKey: SECOND_KEY },
  ],
};

/** The lives that services can have on a platform: not each creates buckets. */
export const livesOn = (platform: string): readonly string[] =>
  Object.keys(LIVES).filter((name) => name !== "bucket's" || WITH_BUCKETS.includes(platform));
const WITH_BUCKETS = ["cloud-run", "aws-app-runner", "aws-ecs-express"];

/** The instance range, in the words of each platform, and a domain where it has certificates. */
export const SETTINGS: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "cloud-run": { minInstances: 1, maxInstances: 3, domain: "agents.example.com" },
  "do-app-platform": {
    minInstances: 1,
    maxInstances: 3,
    size: "apps-d-1vcpu-1gb",
    domain: "agents.example.com",
  },
  "aws-app-runner": { minInstances: 1, maxInstances: 3, domain: "agents.example.com" },
  "aws-ecs-express": { minInstances: 1, maxInstances: 3 },
};

/** A larger machine than the default one, in the words of each platform. */
export const LARGER: Readonly<Record<string, Readonly<Record<string, unknown>>>> = {
  "cloud-run": { memory: "1Gi" },
  "do-app-platform": { size: "apps-s-1vcpu-1gb" },
  "aws-app-runner": { memory: "4096" },
  "aws-ecs-express": { memory: "1024" },
};
