import * as v from "valibot";
import { isDuration } from "../../core/base/duration.ts";
import { needed, option } from "../../core/base/option.ts";

type Entry = v.GenericSchema & { readonly wrapped?: Entry };

const { text, choice } = option;
const seconds = (description: string) => v.optional(needed.amount(description, "seconds"));

/** Options of every platform that can be written in `deploy.yaml`, and as flags: `publicUrl` is `--public-url`. */
export const SETTINGS = {
  name: text("base name of the service (default: the folder's name)", "name"),
  region: text("the provider's region (default: the platform's)", "region"),
  projectId: text("cloud project or account (default: from the provider's own settings)", "id"),
  port: option.whole(
    "port that the service listens on (default: that of the running service, else 8000)",
    1,
    65535,
  ),
  publicUrl: text("public URL of the service, such as your own domain (default: unchanged)", "url"),
  generateApiKey: choice("generate an API key if the platform stores none"),
  generateRsa: choice("generate an RSA private key if the platform stores none"),
  storage: option.ruled(
    v.regex(
      /^(create$|(s3|gs|azblob):\/\/.)/,
      'must be "create", or the URL of a bucket: s3://bucket/prefix?region=eu-central-1, gs://bucket/prefix or azblob://account/container/prefix',
    ),
    'bucket that the service stores its jobs in: "create", s3://bucket/prefix, gs://bucket/prefix or azblob://account/container/prefix (default: unchanged)',
    "bucket",
  ),
  sourceDir: text("folder of the controller (default: src)", "folder"),
  controllerFile: text("controller file in that folder (default: controller.ts)", "file"),
  imageRef: option.ruled(
    v.regex(
      /^[a-z0-9.-]+(:\d+)?(\/[a-z0-9._/-]+)+@sha256:[0-9a-f]{64}$/,
      "must be an image by its digest, such as registry.example.com/team/agents@sha256:… (docker push prints it)",
    ),
    "image that is in a registry already, by its digest: it is released as it is, nothing is built",
    "image",
  ),
  dockerfile: text("your own Dockerfile, instead of the generated one", "file"),
  baseImage: option.ruled(
    v.regex(
      /^(?:[a-z0-9.-]+(?::\d+)?\/)?[a-z0-9._-]+(?:\/[a-z0-9._-]+)*(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?$/,
      "must be the name of an image, such as node:22-slim@sha256:…",
    ),
    "image that the generated one starts from: Debian with Node, best by its digest (default: node:22-slim)",
    "image",
  ),
  apt: option.ruled(
    v.regex(
      /^[a-z0-9][a-z0-9+.-]*(\s+[a-z0-9][a-z0-9+.-]*)*$/,
      "must be names of Debian packages, separated by spaces",
    ),
    "Debian packages that the image has too, separated by spaces",
    "packages",
  ),
  expires: option.ruled(
    v.check((text) => text === "never" || isDuration(text), 'must be a time such as 7d, or "never"'),
    'time after which "svc deploy down --expired" removes the environment, such as 7d',
    "time",
  ),
  drain: option.ruled(
    v.check((text) => isDuration(text), "must be a time such as 10m"),
    "time in which the running service starts no new jobs and ends those that run, before it is replaced, such as 10m",
    "time",
  ),
  timeout: seconds("limit for rollout and health checks (default: 300, or what the platform needs)"),
  buildTimeout: seconds("limit for the build and the push (default: 900)"),
} satisfies v.ObjectEntries;

const VariableNameSchema = v.pipe(
  v.string(),
  v.regex(
    /^[A-Za-z_][A-Za-z0-9_]*$/,
    "must be a variable name: letters, digits and _, not starting with a digit",
  ),
);

/** Where the value of a secret comes from. */
const SecretSchema = v.strictObject({
  env: v.optional(v.pipe(VariableNameSchema, v.description("environment variable that has the value"))),
  file: v.optional(
    v.pipe(v.string("must be text"), v.description("file that has the value, relative to deploy.yaml")),
  ),
  command: v.optional(
    v.pipe(
      v.string("must be text"),
      v.regex(/\S/, "must not be empty"),
      v.description("command that prints the value, such as that of a password manager"),
    ),
  ),
  ref: v.optional(
    v.pipe(
      v.string("must be text"),
      v.nonEmpty("must not be empty"),
      v.description("secret that the platform's vault has already, by its name there"),
    ),
  ),
  remove: v.optional(
    v.pipe(v.literal(true, "must be true"), v.description("the service no longer receives it")),
  ),
  description: v.optional(v.pipe(v.string("must be text"), v.description("for people"))),
});
export type SecretSource = v.InferOutput<typeof SecretSchema>;

const command = (when: string) =>
  v.optional(
    v.pipe(
      v.string("must be text"),
      v.nonEmpty("must not be empty"),
      v.description(`command that runs ${when}`),
    ),
  );

/** What a service receives, the commands around its releases, and where its jobs are stored. */
export const CONTENTS = {
  variables: v.optional(
    v.pipe(
      v.nullable(
        v.record(
          VariableNameSchema,
          v.nullable(v.string("must be text: put quotes around numbers, true and false")),
        ),
      ),
      v.description("plain variables of the service, by name; null removes one"),
    ),
  ),
  secrets: v.optional(
    v.pipe(
      v.nullable(v.record(VariableNameSchema, v.nullable(SecretSchema))),
      v.description(
        "secrets by name: nothing (the environment variable of that name), { env: NAME }, { file: path }, { command: what prints it }, { ref: name in the vault } or { remove: true }",
      ),
    ),
  ),
  labels: v.optional(
    v.pipe(
      v.nullable(v.record(v.string(), v.nullable(v.string("must be text: put quotes around numbers")))),
      v.description("labels of the service, such as its cost center; null removes one, the others stay"),
    ),
  ),
  release: command(
    "once in the new image, as the service with its variables and secrets, before it gets traffic",
  ),
  hooks: v.optional(
    v.pipe(
      v.strictObject({
        beforeBuild: command("before the plan is made"),
        afterRelease: command("once the release is healthy"),
      }),
      v.description("commands that svc deploy up runs on this machine, without secrets of the service"),
    ),
  ),
  store: v.optional(
    v.pipe(
      v.picklist(["file", "external"], 'must be "file" or "external"'),
      v.description(
        'where jobs are stored without a database: "file" (the container\'s disk, also where it does not last) or "external" (a store of your controller)',
      ),
    ),
  ),
} satisfies v.ObjectEntries;

/** The platform of a part of the file. */
export const PLATFORM = {
  platform: v.optional(v.pipe(v.string("must be text"), v.description("where to deploy to"))),
} satisfies v.ObjectEntries;

/** Everything that one part of the file may have, besides the options of its platform. */
export const PART = { ...PLATFORM, ...SETTINGS, ...CONTENTS };

/** Whether an option is text: YAML reads `cpu: 1` as a number, and the platform wants "1". */
export function isText(entry: v.GenericSchema): boolean {
  let base = entry as Entry;
  while (base.wrapped) base = base.wrapped;
  return base.type === "string" || base.type === "picklist";
}
