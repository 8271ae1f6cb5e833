import * as v from "valibot";
import { ACCEPTED_ENVELOPES } from "../agents/parameters.ts";
import { isKeepTime, RETENTION_RULE, toKeepTime } from "../agents/retention-policy.ts";
import { isSuspendAfter, SUSPEND_RULE, type SuspendAfter, toSuspendAfter } from "../agents/suspend-after.ts";
import { atLeast, OptionsError, wholeAtLeast } from "../base/check-options.ts";
import type { Duration } from "../base/duration.ts";
import { LOG_FORMATS, LOG_LEVELS } from "../base/log.ts";
import { readNetworks } from "../base/networks.ts";
import { readSwitch } from "../base/switch.ts";
import { HttpUrlSchema } from "../models/scalars.ts";
import { DURABILITIES } from "../store/durability.ts";
import { areEncryptionKeys, ENCRYPTION_RULE, Keyring } from "../store/encryption/keyring.ts";
import { areRsaPrivateKeys, isRsaPrivateKey } from "./rsa-key.ts";

/** What a default depends on. */
export interface Surroundings {
  readonly isTerminal: boolean;
}

/** An option of `createServer`, with all that is known of it: how it is read and checked, and what docs say. */
export interface Setting {
  /** The variables that it comes from where the option is missing: the first one that is set, or one for each part. */
  readonly env?: readonly string[] | Readonly<Record<string, string>>;
  /** Reads the text of a variable. @default the text itself */
  readonly read?: (text: string, name: string) => unknown;
  /** What its value must be; without it, `resolveOptions` reads the option by itself. */
  readonly schema?: v.GenericSchema;
  /** Its value, or that of each part, where neither the option nor a variable is set. */
  readonly default?: unknown | ((surroundings: Surroundings) => unknown);
  /** The variables in docs/settings.md, where they need a word. */
  readonly variables?: string;
  /** The default and the meaning in docs/settings.md. */
  readonly docs: readonly [byDefault: string, what: string];
}

const DAY = 24 * 3_600_000;
const seconds = atLeast(0);
const keepTime = v.pipe(v.custom<Duration | "keep">(isKeepTime, RETENTION_RULE), v.transform(toKeepTime));

const ApiKeySchema = v.undefinedable(
  v.pipe(
    v.string(),
    v.minLength(8, "must be at least 8 characters long"),
    // Clients could not send other characters in a header.
    v.regex(/^[\x21-\x7e]+$/, "must consist of visible ASCII characters, without spaces"),
  ),
);

const TRUST_PROXY = "must be a number of proxies, or addresses and networks such as 10.0.0.0/8";

/** The options of `createServer`, in the order of docs/settings.md. */
export const SETTINGS = {
  agents: { docs: ["at least one is needed", "The agents that the service hosts"] },
  host: {
    env: ["SERVICE_HOST"],
    schema: v.pipe(v.string(), v.regex(/^[A-Za-z0-9.:_[\]-]+$/, "must be a host name or an address")),
    default: "127.0.0.1",
    docs: ["`127.0.0.1`", "Address to listen on; `0.0.0.0` for all"],
  },
  port: {
    env: ["SERVICE_PORT", "PORT"],
    variables: "`SERVICE_PORT`, else `PORT`",
    read: number,
    schema: v.pipe(wholeAtLeast(0), v.maxValue(65535, "must be at most 65535")),
    default: 8000,
    docs: ["`8000`", "0 takes a free one"],
  },
  publicUrl: {
    env: ["SERVICE_PUBLIC_URL"],
    schema: v.undefinedable(v.pipe(v.string(), v.transform(withoutSlash), HttpUrlSchema)),
    docs: ["the address that it listens on", "Where others reach the service"],
  },
  apiPrefix: {
    env: ["SERVICE_API_PREFIX"],
    schema: v.pipe(v.string(), v.regex(/^(\/[A-Za-z0-9._~-]+)*$/, "must be empty or like /supervaizer")),
    default: "",
    docs: ["none", "Path in front of the machine routes, such as `/supervaizer`"],
  },
  environment: {
    env: ["SERVICE_ENVIRONMENT"],
    schema: v.pipe(v.string(), v.nonEmpty("must not be empty")),
    default: "dev",
    docs: ["`dev`", "What the service says about where it runs"],
  },
  build: {
    env: ["SERVICE_BUILD"],
    docs: [
      "a hash of the source files and the lock file",
      "Names this build of the code, such as a commit; jobs keep it, so that [new code](durability.md#new-code) is recognized",
    ],
  },
  trustProxy: {
    env: ["SERVICE_TRUST_PROXY"],
    read: (text: string) => (/^\d+$/.test(text) ? Number(text) : list(text)),
    schema: v.pipe(
      v.union([v.number(), v.array(v.string())], TRUST_PROXY),
      v.check(
        (trust) =>
          typeof trust === "number" ? Number.isInteger(trust) && trust >= 0 : !!readNetworks(trust),
        TRUST_PROXY,
      ),
    ),
    default: 0,
    docs: [
      "0: nobody",
      "Proxies in front whose `X-Forwarded-*` headers are [believed](security.md#behind-a-proxy): how many, or networks separated by commas",
    ],
  },
  allowedOrigins: {
    env: ["SERVICE_ALLOWED_ORIGINS"],
    read: list,
    schema: v.array(
      v.pipe(
        v.string(),
        v.check(isOrigin, "must be origins such as https://app.example.com, without a path"),
      ),
    ),
    default: [],
    docs: [
      "none",
      "Origins whose pages may use [tokens of one job](client.md#in-a-browser), such as `https://app.example.com`; separated by commas",
    ],
  },
  previousApiKey: {
    env: ["SERVICE_PREVIOUS_API_KEY"],
    schema: ApiKeySchema,
    docs: ["none", "A former key that works beside `apiKey` [while clients change](security.md#the-api-key)"],
  },
  apiKey: {
    env: ["SERVICE_API_KEY"],
    schema: ApiKeySchema,
    docs: [
      "made at the first start, in `data/api-key`",
      "Key that clients send; 8 visible ASCII characters or more, in `prod` 128 bits",
    ],
  },
  rsaPrivateKey: {
    env: ["SERVICE_RSA_PRIVATE_KEY"],
    read: (text: string) => text.replaceAll("\\n", "\n"),
    schema: v.undefinedable(
      v.pipe(v.string(), v.check(isRsaPrivateKey, "must be an RSA private key in PEM, of 2048 bits or more")),
    ),
    docs: [
      "made at the first start, in the data folder",
      "Decrypts agent parameters; PEM, in one line with `\\n` where a variable cannot hold more. [`SERVICE_RSA_PRIVATE_KEY_2` replaces it](security.md#the-rsa-key)",
    ],
  },
  previousRsaPrivateKey: {
    env: ["SERVICE_PREVIOUS_RSA_PRIVATE_KEY"],
    read: (text: string) => text.replaceAll("\\n", "\n"),
    schema: v.undefinedable(
      v.pipe(
        v.string(),
        v.check(
          areRsaPrivateKeys,
          "must be RSA private keys in PEM, one after the other, of 2048 bits or more",
        ),
      ),
    ),
    docs: [
      "none",
      "Former RSA keys, one after the other, whose parameters are still read, and [encrypted again](security.md#the-rsa-key)",
    ],
  },
  encryption: {
    env: ["SERVICE_ENCRYPTION_KEYS"],
    read: (text: string) => ({ keys: list(text) }),
    schema: v.undefinedable(
      v.pipe(
        v.strictObject({ keys: v.array(v.string()) }, "must have the key keys"),
        v.check(({ keys }) => areEncryptionKeys(keys), ENCRYPTION_RULE),
        v.transform(({ keys }) => new Keyring(keys)),
      ),
    ),
    docs: [
      "none: content is stored as it is",
      "Keys that the store's content is [encrypted](encryption.md) with: `{ keys }`, the first one encrypts, all decrypt; separated by commas",
    ],
  },
  dataDir: {
    env: ["SERVICE_DATA_DIR"],
    schema: v.pipe(v.string(), v.nonEmpty("must not be empty")),
    default: "data",
    docs: ["`data`", "Folder of the [store](store.md) and the generated keys"],
  },
  envelopes: {
    env: ["SERVICE_ENVELOPES"],
    schema: v.picklist(ACCEPTED_ENVELOPES),
    default: "all",
    docs: [
      "`all`",
      "`v2` takes only encrypted parameters that cannot be [changed unnoticed](security.md#encrypted-parameters)",
    ],
  },
  account: {
    env: ["SERVICE_ACCOUNT_WORKSPACE_ID", "SERVICE_ACCOUNT_API_KEY", "SERVICE_ACCOUNT_API_URL"],
    docs: ["none: nothing is sent", "The [control system](events.md)"],
  },
  logLevel: {
    env: ["SERVICE_LOG_LEVEL"],
    schema: v.picklist(LOG_LEVELS),
    default: "info",
    docs: ["`info`", "`debug`, `info`, `warn` or `error`"],
  },
  logFormat: {
    env: ["SERVICE_LOG_FORMAT"],
    schema: v.picklist(LOG_FORMATS),
    default: ({ isTerminal }: Surroundings) => (isTerminal ? "text" : "json"),
    docs: ["`text` on a terminal, else `json`", "Times in the log are UTC"],
  },
  maxConcurrentJobs: {
    env: ["SERVICE_MAX_CONCURRENT_JOBS"],
    read: number,
    schema: wholeAtLeast(1),
    default: 16,
    docs: ["16", "Jobs that run at the same time; an agent can have its own limit"],
  },
  maxQueuedJobs: {
    schema: wholeAtLeast(1),
    default: 10_000,
    docs: [
      "10,000",
      "Jobs that may wait before new ones are refused with 429, [shared out](security.md#limits)",
    ],
  },
  maxStreams: {
    env: ["SERVICE_MAX_STREAMS"],
    read: number,
    schema: wholeAtLeast(1),
    default: 1000,
    docs: [
      "1,000",
      "Live streams that may be open at the same time, [shared out among callers](security.md#limits)",
    ],
  },
  schedules: { docs: ["none", "Jobs that start [at planned times](schedules.md)"] },
  bodyLimit: {
    schema: wholeAtLeast(1),
    default: 1024 * 1024,
    docs: ["1 MiB", "Largest request body, bytes; 100,000 on routes that need no key"],
  },
  fileLimit: {
    env: ["SERVICE_FILE_LIMIT"],
    read: number,
    schema: wholeAtLeast(1),
    default: 100 * 1024 * 1024,
    docs: ["100 MiB", "Largest [file](files.md), bytes"],
  },
  jobFilesLimit: {
    env: ["SERVICE_JOB_FILES_LIMIT"],
    read: number,
    schema: wholeAtLeast(1),
    default: 2 * 1024 ** 3,
    docs: ["2 GiB", "Bytes that the files of one job may have together"],
  },
  workspaceFilesLimit: {
    env: ["SERVICE_WORKSPACE_FILES_LIMIT"],
    read: number,
    schema: wholeAtLeast(1),
    default: 100 * 1024 ** 3,
    docs: ["100 GiB", "Bytes that the files of all jobs of one workspace may have together"],
  },
  stopGrace: {
    schema: seconds,
    default: 10,
    docs: ["10", "Seconds that a stopped job gets to end by itself"],
  },
  suspendAfter: {
    env: ["SERVICE_SUSPEND_AFTER"],
    read: (text: string) => (text === "false" ? false : text),
    schema: v.pipe(
      v.custom<SuspendAfter>(isSuspendAfter, SUSPEND_RULE),
      v.transform((value) => ({ milliseconds: toSuspendAfter(value) })),
    ),
    default: "10s",
    docs: [
      "`10s`",
      "How long a job only waits before it [leaves memory](durability.md#suspended-jobs), or `false`; an agent can have its own",
    ],
  },
  paused: {
    env: ["SERVICE_PAUSED"],
    read: flag,
    schema: v.boolean(),
    default: false,
    docs: ["`false`", "Whether jobs are accepted and none runs until [`svc resume`](cli.md#svc-start-file)"],
  },
  strictSteps: {
    env: ["SERVICE_STRICT_STEPS"],
    read: flag,
    schema: v.boolean(),
    default: false,
    docs: [
      "`false`; `true` under `svc dev`, `svc torture`",
      "Whether calls [inside a step's function](durability.md#what-you-must-do) are found wherever they are made",
    ],
  },
  retention: {
    env: {
      completed: "SERVICE_RETENTION_COMPLETED",
      failed: "SERVICE_RETENTION_FAILED",
      cancelled: "SERVICE_RETENTION_CANCELLED",
    },
    schema: v.strictObject(
      { completed: keepTime, failed: keepTime, cancelled: keepTime },
      "must have only the keys completed, failed and cancelled",
    ),
    default: "keep",
    docs: [
      '`"keep"` for each',
      'How long jobs are [kept after their end](store.md#retention), by status, such as `{ completed: "30d", failed: "90d" }`; an agent can have its own',
    ],
  },
  auditRetention: {
    env: ["SERVICE_AUDIT_RETENTION"],
    schema: v.pipe(
      keepTime,
      v.check((time) => time === null || time >= DAY, "must be at least one day"),
    ),
    default: "keep",
    docs: ['`"keep"`', "How long the [audit log](audit.md) is kept, a day or more"],
  },
  deletedRetention: {
    env: ["SERVICE_DELETED_RETENTION"],
    schema: v.pipe(
      v.custom<Duration | "keep">(
        (value) => isNone(value) || isKeepTime(value),
        'must be 0, a duration of a second or more, such as "30d", or "keep"',
      ),
      v.transform((value) => (isNone(value) ? 0 : toKeepTime(value))),
    ),
    default: "30d",
    docs: [
      '`"30d"`',
      "How long a [deleted job](admin.md#deleting-and-restoring) can be restored; with 0, deleting is final",
    ],
  },
  eventRetention: {
    env: ["SERVICE_EVENT_RETENTION"],
    schema: keepTime,
    default: "30d",
    docs: ['`"30d"`', "How long [events for jobs](agents.md#events) are kept"],
  },
  shutdownGrace: {
    schema: seconds,
    default: 5,
    docs: ["5", "Seconds that running steps get when the service closes"],
  },
  admin: {
    schema: v.boolean(),
    default: true,
    docs: ["`true`", "Whether the [admin interface](admin.md) is there"],
  },
  receivers: { docs: ["none", "Services that send [signed events](events.md#signed-events), without a key"] },
  workspaces: {
    docs: ["none", "Budgets, limits and retention [of workspaces](access.md#workspaces)"],
  },
  access: { docs: ["one key opens everything", "[Named keys and people](access.md) with fewer rights"] },
  plugins: { docs: ["none", "[Plugins](plugins.md) beside the built-in ones"] },
  pluginTimeout: { schema: seconds, default: 10, docs: ["10", "Seconds for the setup of one plugin"] },
  backup: {
    env: ["SERVICE_BACKUP_URL", "SERVICE_BACKUP_EVERY", "SERVICE_BACKUP_KEEP"],
    docs: [
      'none; every `"1h"`, kept `"30d"`',
      "Ships the store to a bucket or folder [on a schedule](store.md#backups-on-a-schedule): a storage of unstorage or one of its drivers, or `{ storage, every, keep }`",
    ],
  },
  store: {
    env: ["SERVICE_DATABASE_URL", "SERVICE_DATABASE_SCHEMA"],
    variables: "`SERVICE_DATABASE_URL`, of a Postgres database, and `SERVICE_DATABASE_SCHEMA` in it",
    docs: [
      "the folder of JSON lines",
      "A store in [Postgres](store.md#postgres), or [another one](store.md#another-store)",
    ],
  },
  adoptStore: {
    env: ["SERVICE_ADOPT_STORE"],
    schema: v.undefinedable(v.pipe(v.string(), v.nonEmpty("must not be empty"))),
    docs: [
      "none",
      "The mark of a store that [another service has used](store.md#whose-a-store-is), which this one makes its own",
    ],
  },
  storage: {
    env: ["SERVICE_STORAGE_URL"],
    docs: [
      "none",
      "Keeps the store's journal [in a bucket](store.md#on-a-bucket), so that it outlives the machine: a URL, a driver of unstorage, or a `Storage` of it",
    ],
  },
  durability: {
    env: ["SERVICE_DURABILITY"],
    schema: v.picklist(DURABILITIES),
    default: "bucket",
    docs: [
      "`bucket`",
      "With `storage`: whether a write is acknowledged once it is [in the bucket or on the disk](store.md#two-promises)",
    ],
  },
  clock: { docs: ["the system's clock", "For tests"] },
  startTimer: { docs: ["the system's timers", "For tests"] },
  logTo: { docs: ["standard error", "For tests"] },
  advancedBy: { docs: ["never", "For tests"] },
} as const satisfies Record<string, Setting>;

type Table = typeof SETTINGS;
/** Options that are read and checked by the table alone. */
type PlainName = { [K in keyof Table]: Table[K] extends { schema: unknown } ? K : never }[keyof Table];
type Schemas = { [K in PlainName]: Table[K] extends { schema: infer S extends v.GenericSchema } ? S : never };

const PLAIN = Object.entries(SETTINGS as Readonly<Record<string, Setting>>).filter(
  ([, { schema }]) => schema,
);

/** What the plain options must be. */
export const PlainSettingsSchema = v.object(
  Object.fromEntries(PLAIN.map(([name, { schema }]) => [name, schema!])) as Schemas,
);

/** The variable of each option, and of each part of one, for messages. */
export const VARIABLES: Readonly<Record<string, string>> = Object.fromEntries(
  PLAIN.flatMap(([name, { env }]) => {
    if (env === undefined) return [];
    if (Array.isArray(env)) return [[name, env[0]]];
    return Object.entries(env).map(([part, variable]) => [`${name}.${part}`, variable]);
  }),
);

type Environment = Readonly<Record<string, string | undefined>>;

/** The plain options as they are given: by the caller, else by a variable, else by default. */
export function readPlainSettings(
  options: Readonly<Record<string, unknown>>,
  env: Environment,
  surroundings: Surroundings,
): Record<string, unknown> {
  return Object.fromEntries(
    PLAIN.map(([name, setting]) => [name, settle(setting, options[name], env, surroundings)]),
  );
}

function settle(setting: Setting, given: unknown, env: Environment, surroundings: Surroundings): unknown {
  const { env: variables = [], read = (value: string) => value } = setting;
  const fromVariable = (name: string): unknown => {
    const value = textOf(env, name);
    return value === undefined ? undefined : read(value, name);
  };
  const byDefault = typeof setting.default === "function" ? setting.default(surroundings) : setting.default;
  if (Array.isArray(variables)) {
    for (const name of (given ?? undefined) === undefined ? variables : []) {
      const value = fromVariable(name);
      if (value !== undefined) return value;
    }
    return given ?? byDefault;
  }
  const parts = (given ?? {}) as Readonly<Record<string, unknown>>;
  const known = Object.entries(variables).map(([part, name]) => [
    part,
    parts[part] ?? fromVariable(name) ?? byDefault,
  ]);
  return { ...parts, ...Object.fromEntries(known) };
}

/** The text of a variable; one that is empty counts as not set. */
export function textOf(env: Environment, name: string): string | undefined {
  const value = env[name]?.trim();
  return value === "" ? undefined : value;
}

/** The table of docs/settings.md. */
export function describeSettings(): string {
  const rows = Object.entries(SETTINGS as Readonly<Record<string, Setting>>).map(
    ([
      name,
      {
        env = [],
        variables,
        docs: [byDefault, what],
      },
    ]) => {
      const names = Array.isArray(env) ? env : Object.values(env);
      return [`\`${name}\``, variables ?? names.map((one) => `\`${one}\``).join(", "), byDefault, what];
    },
  );
  const lines = [["Option", "Variable", "Default", ""], ["---", "---", "---", "---"], ...rows];
  return lines.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

function list(text: string): string[] {
  return text.split(",").map((one) => one.trim());
}

function flag(text: string, name: string): boolean {
  const is = readSwitch(text);
  if (is !== undefined) return is;
  throw new OptionsError(`${name} must be true or false`);
}

function number(text: string, name: string): number {
  if (/^\d+$/.test(text)) return Number(text);
  throw new OptionsError(`${name} must be a whole number`);
}

/** As a browser sends it. */
function isOrigin(value: string): boolean {
  return /^https?:/.test(value) && URL.canParse(value) && new URL(value).origin === value;
}

/** Whether a time is none, with a unit or without. */
function isNone(value: unknown): boolean {
  return /^0(?:\s*(?:ms|s|m|h|d))?$/.test(String(value).trim());
}

function withoutSlash(url: string): string {
  return url.replace(/\/+$/, "");
}
