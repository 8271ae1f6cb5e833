import * as v from "valibot";
import { ENVIRONMENTS } from "../../deploy/name.ts";

const text = (description: string, value: string) =>
  v.optional(v.pipe(v.string(), v.description(description), v.metadata({ value })));
const switchOff = (description: string) => v.optional(v.pipe(v.boolean(), v.description(description)), false);
const seconds = (description: string) =>
  v.pipe(
    v.number(),
    v.minValue(1, "must be at least 1"),
    v.description(description),
    v.metadata({ value: "seconds" }),
  );

const port = (description: string) =>
  v.pipe(
    v.number(),
    v.integer("must be a whole number"),
    v.minValue(1, "must be 1 to 65535"),
    v.maxValue(65535, "must be 1 to 65535"),
    v.description(description),
  );

/** The target of a deployment: options of every command with a platform. */
export const TARGET_FLAGS = {
  platform: v.pipe(v.string(), v.description("where to deploy to"), v.metadata({ value: "name" })),
  name: text("base name of the service (default: the folder's name)", "name"),
  env: v.optional(
    v.pipe(v.picklist(ENVIRONMENTS), v.description("environment; part of the service's name")),
    "dev",
  ),
  region: text("the provider's region (default: the platform's)", "region"),
  projectId: text("cloud project or account (default: from the provider's own settings)", "id"),
};

/** Accepts the loss of what the service stores in files. */
export const ACCEPT_DATA_LOSS = {
  acceptDataLoss: switchOff("continue even if open jobs, or data on the disk in prod, will be lost"),
};

/** What to run there. */
export const RELEASE_FLAGS = {
  port: v.optional(
    port("port that the service listens on (default: that of the running service, else 8000)"),
  ),
  image: text("image tag (default: from the git commit)", "tag"),
  generateApiKey: switchOff("generate an API key if the platform stores none"),
  generateRsa: switchOff("generate an RSA private key if the platform stores none"),
  publicUrl: text("public URL of the service, such as your own domain (default: unchanged)", "url"),
  sourceDir: v.optional(
    v.pipe(v.string(), v.description("folder of the controller"), v.metadata({ value: "folder" })),
    "src",
  ),
  controllerFile: text("controller file in that folder (default: controller.ts)", "file"),
  ...ACCEPT_DATA_LOSS,
};

export const SOURCE_FLAGS = {
  sourceDir: RELEASE_FLAGS.sourceDir,
  controllerFile: RELEASE_FLAGS.controllerFile,
};

export const YES = { yes: switchOff("do not ask for confirmation") };
export const JSON_FLAG = { json: switchOff("print a single JSON document") };
export const VERBOSE = { verbose: switchOff("show the output of the underlying tools") };
export const OVERWRITE = {
  overwriteFiles: switchOff("overwrite generated files that you edited"),
};
export const TIMEOUT = {
  timeout: v.optional(
    seconds("limit for rollout and health checks (default: 300, or what the platform needs)"),
  ),
};
export const BUILD_TIMEOUT = { buildTimeout: v.optional(seconds("limit for the build and the push"), 900) };
export { port, seconds, switchOff, text };
