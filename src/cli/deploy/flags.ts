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

/** What a deployment is about: options of every command with a platform. */
export const TARGET_FLAGS = {
  platform: v.pipe(v.string(), v.description("where to deploy to"), v.metadata({ value: "name" })),
  name: text("service base name; the folder's name where it is left out", "name"),
  env: v.optional(
    v.pipe(v.picklist(ENVIRONMENTS), v.description("environment, part of the service's name")),
    "dev",
  ),
  region: text("the provider's region; the platform's default where it is left out", "region"),
  projectId: text("cloud project or account; from the provider's own settings where it is left out", "id"),
};

/** Agrees to the loss of what the service keeps in files. */
export const ACCEPT_DATA_LOSS = {
  acceptDataLoss: switchOff("go on although open jobs, or what the disk keeps in prod, are lost by it"),
};

/** What is to run there. */
export const RELEASE_FLAGS = {
  port: v.optional(
    port("port that the service listens on; that of what runs, else 8000, where it is left out"),
  ),
  image: text("image tag; from the git commit where it is left out", "tag"),
  generateApiKey: switchOff("make an API key if the platform keeps none"),
  generateRsa: switchOff("make an RSA private key if the platform keeps none"),
  publicUrl: text(
    "address under which people reach the service, such as your own domain; else it stays as it is",
    "url",
  ),
  sourceDir: v.optional(
    v.pipe(v.string(), v.description("folder of the controller"), v.metadata({ value: "folder" })),
    "src",
  ),
  controllerFile: text("controller file in it; controller.ts where it is left out", "file"),
  ...ACCEPT_DATA_LOSS,
};

export const SOURCE_FLAGS = {
  sourceDir: RELEASE_FLAGS.sourceDir,
  controllerFile: RELEASE_FLAGS.controllerFile,
};

export const YES = { yes: switchOff("ask nothing") };
export const JSON_FLAG = { json: switchOff("print one JSON document and nothing else") };
export const VERBOSE = { verbose: switchOff("show what the tools underneath print") };
export const OVERWRITE = {
  overwriteFiles: switchOff("write generated files again although you edited them"),
};
export const TIMEOUT = {
  timeout: v.optional(seconds("for rollout and health; 300, or what the platform needs")),
};
export const BUILD_TIMEOUT = { buildTimeout: v.optional(seconds("for the build and the push"), 900) };
export { port, seconds, switchOff, text };
