import * as v from "valibot";
import { needed, option } from "../../core/base/option.ts";
import { SETTINGS } from "../../deploy/file/settings.ts";
import { ENVIRONMENT_NAME } from "../../deploy/name.ts";

/** The target of a deployment: options of every command with a platform. */
export const TARGET_FLAGS = {
  platform: needed.text("where to deploy to", "name"),
  name: SETTINGS.name,
  env: v.optional(
    v.pipe(
      v.string(),
      v.regex(
        ENVIRONMENT_NAME,
        "must be at most 32 lower-case letters, digits and hyphens, starting with a letter",
      ),
      v.description("environment, such as dev, staging or prod; part of the service's name"),
      v.metadata({ value: "name" }),
    ),
    "dev",
  ),
  region: SETTINGS.region,
  projectId: SETTINGS.projectId,
};

/** Accepts the loss of jobs that are open now. */
export const ACCEPT_DATA_LOSS = {
  acceptDataLoss: option.flag("continue even if jobs that are open now will be lost"),
};

/** Removes keys of jobs that stay. */
export const REMOVE_KEYS = {
  removeKeys: option.flag("remove, too, the keys without which jobs that stay cannot be read"),
};

/** What to run there. */
export const RELEASE_FLAGS = {
  port: SETTINGS.port,
  image: option.text("image tag (default: from the git commit)", "tag"),
  imageRef: SETTINGS.imageRef,
  generateApiKey: SETTINGS.generateApiKey,
  generateRsa: SETTINGS.generateRsa,
  publicUrl: SETTINGS.publicUrl,
  expires: SETTINGS.expires,
  storage: SETTINGS.storage,
  sourceDir: SETTINGS.sourceDir,
  controllerFile: SETTINGS.controllerFile,
  dockerfile: SETTINGS.dockerfile,
  baseImage: SETTINGS.baseImage,
  apt: SETTINGS.apt,
  ...ACCEPT_DATA_LOSS,
  acceptEphemeralDisk: option.flag(
    'let a service in prod keep its jobs on a disk that does not last, as "store: file" in deploy.yaml does',
  ),
};

export const SOURCE_FLAGS = {
  sourceDir: RELEASE_FLAGS.sourceDir,
  controllerFile: RELEASE_FLAGS.controllerFile,
};

export const IMAGE_FLAGS = {
  dockerfile: RELEASE_FLAGS.dockerfile,
  baseImage: RELEASE_FLAGS.baseImage,
  apt: RELEASE_FLAGS.apt,
};

export const YES = { yes: option.flag("do not ask for confirmation") };
export const JSON_FLAG = { json: option.flag("print a single JSON document") };
export const VERBOSE = { verbose: option.flag("show the output of the underlying tools") };
export const OVERWRITE = {
  overwriteFiles: option.flag("overwrite generated files that you edited"),
};
export const BREAK_LOCK = {
  breakLock: option.flag("take over the lock of another run that is dead"),
};
export const DRAIN = { drain: SETTINGS.drain };
export const TIMEOUT = { timeout: SETTINGS.timeout };
export const BUILD_TIMEOUT = { buildTimeout: SETTINGS.buildTimeout };
export const ROLLBACK = {
  rollback: v.optional(
    v.pipe(v.boolean(), v.description("keep a failed revision instead of rolling back")),
    true,
  ),
};

export const CHECK = {
  check: v.optional(
    v.pipe(v.boolean(), v.description("deploy code that cannot be loaded on this machine")),
    true,
  ),
};

/** Options of a platform for one of its commands: those of another command are accepted, and not in its help. */
export function forCommand(entries: v.ObjectEntries, command: string): v.ObjectEntries {
  const isOther = (entry: unknown): boolean => {
    const { wrapped } = entry as { wrapped?: unknown };
    const { command: only } = v.getMetadata(entry as v.GenericSchema) as { command?: string };
    return (only !== undefined && only !== command) || (wrapped !== undefined && isOther(wrapped));
  };
  const others = Object.fromEntries(Object.entries(entries).filter(([, entry]) => isOther(entry)));
  return { ...entries, ...hidden(others) };
}

/** The common options, for commands that do not use them: one line of options serves all commands of a script. */
export const COMMON = hidden({
  ...TARGET_FLAGS,
  ...RELEASE_FLAGS,
  ...ROLLBACK,
  ...DRAIN,
  ...TIMEOUT,
  ...YES,
  ...VERBOSE,
  platform: option.text("where to deploy to", "name"),
});

function hidden(entries: v.ObjectEntries): v.ObjectEntries {
  return Object.fromEntries(
    Object.entries(entries).map(([key, entry]) => [
      key,
      v.pipe(entry as v.GenericSchema, v.metadata({ hidden: true })),
    ]),
  );
}
