import { hostname } from "node:os";
import { resolve } from "node:path";
import * as v from "valibot";
import { type DeclaredKey, type DeclaredKeyOptions, resolveDeclaredKeys } from "../access/declared-keys.ts";
import type { GithubSignIn } from "../access/github.ts";
import type { OidcSignIn } from "../access/oidc.ts";
import type { ProxySignIn } from "../access/proxy-auth.ts";
import { type Receiver, type ReceiverOptions, resolveReceivers } from "../access/receivers.ts";
import { SIGN_INS, type SignIn } from "../access/sign-in.ts";
import type { AgentDefinition } from "../agents/define-agent.ts";
import type { AcceptedEnvelopes } from "../agents/parameters.ts";
import type { RetentionOptions } from "../agents/retention-policy.ts";
import { Workspaces } from "../agents/workspaces.ts";
import { checkOptions, OptionsError } from "../base/check-options.ts";
import type { Duration } from "../base/duration.ts";
import { FollowedClock } from "../base/followed-clock.ts";
import { describeWeakKeys } from "../base/key-strength.ts";
import type { LogFormat, LogLevel } from "../base/log.ts";
import { withoutNumbers } from "../base/numbered-keys.ts";
import { type NamesOf, unknownOption } from "../base/refuse-unknown.ts";
import type { StartTimer } from "../base/timer.ts";
import { unknownMembers } from "../base/unknown-members.ts";
import { WallTimers } from "../base/wall-timers.ts";
import type { TrustProxy } from "../http/clients.ts";
import { type Account, AccountSchema } from "../models/account.ts";
import { type LeaseTimes, leaseTimes } from "../runs/cluster/membership.ts";
import type { ScheduleDefinition } from "../runs/schedules/define-schedule.ts";
import type { StorageLike } from "../storage/open-storage.ts";
import type { Durability } from "../store/durability.ts";
import { isPostgresUrl } from "../store/postgres/postgres-options.ts";
import type { StoreFactory } from "../store/store.ts";
import { type BackupOptions, type ResolvedBackup, resolveBackup } from "./backup-options.ts";
import type { PluginInput } from "./plugin.ts";
import { fingerprintOfProject } from "./project-code.ts";
import { takeVariables } from "./secret-variables.ts";
import { PlainSettingsSchema, readPlainSettings, SETTINGS, textOf, VARIABLES } from "./settings.ts";

/** Who may use the service, beside the holders of its API key. */
export interface AccessOptions {
  /** Keys for disks that are wiped; others are made while the service runs: by `svc access add`. @default none */
  keys?: readonly DeclaredKeyOptions[];
  /** How people sign in, such as `oidc({ … })` or `proxyAuth({ … })`. @default with the API key, or with a named key */
  signIn?: SignIn;
}

/** Options of `createServer`. Omitted options come from the environment variable, then from the default. */
export interface ServerOptions {
  /** Agents that the service hosts, at least one. */
  agents: readonly AgentDefinition[];
  /** Jobs that start at planned times. @default none */
  schedules?: readonly ScheduleDefinition[];
  /**
   * Key that clients send as `X-API-Key`. Variable `SERVICE_API_KEY`. @default generated once and stored in
   * the data folder
   */
  apiKey?: string;
  /**
   * A previous key that is also accepted until all clients have the new one. Variable
   * `SERVICE_PREVIOUS_API_KEY`.
   * @default none
   */
  previousApiKey?: string;
  /** Named keys with fewer rights than the API key, and how people sign in. @default none: one key opens everything */
  access?: AccessOptions;
  /**
   * Limits of the jobs of workspaces, by `workspace_id`, as agents have them; `"*"` is each one without a line of its own,
   * by itself. @default none
   */
  workspaces?: Readonly<Record<string, Pick<AgentDefinition, "budget" | "maxConcurrentJobs" | "retention">>>;
  /** Signed events of other services, which need no key: jobs wait for them with `job.waitFor`. @default none */
  receivers?: readonly ReceiverOptions[];
  /** Plugins beside the built-in ones; one with a built-in's name replaces it. */
  plugins?: PluginInput;
  /** Whether the admin interface is enabled. @default true */
  admin?: boolean;
  /** Address to listen on. Variable `SERVICE_HOST`. @default "127.0.0.1" */
  host?: string;
  /** Port to listen on, 0 for a free one. Variables `SERVICE_PORT`, `PORT`. @default 8000 */
  port?: number;
  /** Folder of the store and the generated keys. Variable `SERVICE_DATA_DIR`. @default "data" */
  dataDir?: string;
  /** Public URL of the service. Variable `SERVICE_PUBLIC_URL`. */
  publicUrl?: string;
  /** Variable `SERVICE_ENVIRONMENT`. @default "dev" */
  environment?: string;
  /**
   * Proxies in front of the service whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted: how many
   * there are, or their addresses and networks, such as `["10.0.0.0/8"]`; `private` means all private
   * networks. Variable `SERVICE_TRUST_PROXY`, networks separated by commas.
   * @default 0: none is trusted
   */
  trustProxy?: TrustProxy;
  /**
   * Origins whose pages may call the routes of one job with its token, such as `["https://app.example.com"]`. Variable
   * `SERVICE_ALLOWED_ORIGINS`, separated by commas.
   * @default none
   */
  allowedOrigins?: readonly string[];
  /** Path in front of the machine routes, such as `/supervaizer`. Variable `SERVICE_API_PREFIX`. @default "" */
  apiPrefix?: string;
  /**
   * RSA private key, PEM. Variable `SERVICE_RSA_PRIVATE_KEY`. @default generated once and stored in the data
   * folder
   */
  rsaPrivateKey?: string;
  /**
   * Former RSA private keys, PEM, one after the other: what was encrypted for them is still read, and is encrypted again
   * for `rsaPrivateKey`. Variable `SERVICE_PREVIOUS_RSA_PRIVATE_KEY`.
   */
  previousRsaPrivateKey?: string;
  /**
   * Keys that the store's content and files are encrypted with, 32 random bytes each, in base64 or hexadecimal: the first
   * one encrypts, all decrypt. `"off"` as the first one decrypts only. Variable `SERVICE_ENCRYPTION_KEYS`, separated by
   * commas.
   * @default none: content is stored as it is
   */
  encryption?: { readonly keys: readonly string[] };
  /**
   * Accepted envelopes of encrypted parameters: all, or `v2`, only authenticated ones. Stored jobs and
   * settings keep working. Variable `SERVICE_ENVELOPES`.
   * @default "all"
   */
  envelopes?: AcceptedEnvelopes;
  /** Account at the control system. Variables `SERVICE_ACCOUNT_WORKSPACE_ID`, `…_API_KEY`, `…_API_URL`. @default none: nothing is sent */
  account?: Account;
  /** Variable `SERVICE_LOG_LEVEL`. @default "info" */
  logLevel?: LogLevel;
  /** Variable `SERVICE_LOG_FORMAT`. @default "text" on a terminal, else "json" */
  logFormat?: LogFormat;
  /** Largest request body, bytes. @default 1048576 */
  bodyLimit?: number;
  /** Largest file, bytes. Variable `SERVICE_FILE_LIMIT`. @default 104857600 */
  fileLimit?: number;
  /** Bytes that the files of one job may have together. Variable `SERVICE_JOB_FILES_LIMIT`. @default 2147483648 */
  jobFilesLimit?: number;
  /**
   * Bytes that the files of all jobs of one workspace may have together. Variable `SERVICE_WORKSPACE_FILES_LIMIT`.
   * @default 107374182400
   */
  workspaceFilesLimit?: number;
  /** Jobs that run at the same time on this service. Variable `SERVICE_MAX_CONCURRENT_JOBS`. @default 16 */
  maxConcurrentJobs?: number;
  /** Jobs that may be queued before new ones are refused with 429. @default 10000 */
  maxQueuedJobs?: number;
  /** Live streams that may be open at the same time, shared out among callers. Variable `SERVICE_MAX_STREAMS`. @default 1000 */
  maxStreams?: number;
  /** Time that running steps get to finish when the service closes, seconds. @default 5 */
  shutdownGrace?: number;
  /** Time that a stopped job gets to end by itself, seconds. @default 10 */
  stopGrace?: number;
  /**
   * How long a job only waits (for a sleep to end, an answer, and so on) before it leaves memory, if the wait lasts
   * that long again; `false` keeps waiting jobs in memory. An agent can have its own. Variable
   * `SERVICE_SUSPEND_AFTER`.
   *
   * @default "10s"
   */
  suspendAfter?: Duration | false;
  /**
   * Whether calls of a job or case inside a step's function are detected anywhere, at about 10 µs per step;
   * else only those that the function makes before its first await. Variable `SERVICE_STRICT_STEPS`.
   *
   * @default false, true under `svc dev` and in `testServer`
   */
  strictSteps?: boolean;
  /**
   * Whether the service accepts jobs and runs none until it is resumed: by `svc resume`, `POST /utils/resume`, or in
   * the admin interface. Variable `SERVICE_PAUSED`.
   *
   * @default false
   */
  paused?: boolean;
  /**
   * How long jobs are kept after their end, by status; then they are removed with everything that belongs to
   * them. An agent can have its own policy. Variables `SERVICE_RETENTION_COMPLETED`,
   * `SERVICE_RETENTION_FAILED`, `SERVICE_RETENTION_CANCELLED`.
   *
   * @default "keep" for each: they are kept indefinitely
   * @example { completed: "30d", failed: "90d", cancelled: "30d" }
   */
  retention?: RetentionOptions;
  /**
   * How long the audit log is kept: a duration of a day or more, such as `"730d"`. Variable `SERVICE_AUDIT_RETENTION`.
   *
   * @default "keep": indefinitely
   */
  auditRetention?: Duration | "keep";
  /**
   * How long events that were sent for jobs to wait for are kept, such as `"7d"`, or `"keep"`. Variable
   * `SERVICE_EVENT_RETENTION`.
   *
   * @default "30d"
   */
  eventRetention?: Duration | "keep";
  /**
   * How long a deleted job can be restored, such as `"7d"`, or `"keep"`; with 0, deleting is final. Its agent's retention
   * removes it earlier. Variable `SERVICE_DELETED_RETENTION`.
   *
   * @default "30d"
   */
  deletedRetention?: Duration | "keep";
  /** Time limit of one plugin's setup, seconds. @default 10 */
  pluginTimeout?: number;
  /**
   * Names this build of the code, such as a commit: it is part of the fingerprint that jobs keep of the code that ran
   * them. Variable `SERVICE_BUILD`. @default a hash of the project's source files and its lock file
   */
  build?: string;
  /**
   * Opens another store than the embedded one. Variable `SERVICE_DATABASE_URL`, with the URL of a Postgres database,
   * which needs the package `pg`; `SERVICE_DATABASE_SCHEMA` names the schema in it (`agent_control_service`).
   *
   * @default a store in the data folder
   */
  store?: StoreFactory;
  /**
   * The mark of a store that another service has used, or this one with another RSA key: this start makes it its own. The
   * error that refuses such a store names it. Variable `SERVICE_ADOPT_STORE`.
   */
  adoptStore?: string;
  /**
   * Ships the store to a storage again and again, as backups: a `Storage` of unstorage or one of its drivers, or how
   * often and for how long too. Variables `SERVICE_BACKUP_URL`, such as `s3://bucket/prefix?region=eu-central-1`,
   * `SERVICE_BACKUP_EVERY` and `SERVICE_BACKUP_KEEP`.
   *
   * @default none: no backups are made
   * @example { storage: s3Driver({ bucket: "agents-backup", region: "eu-central-1" }), every: "15m" }
   */
  backup?: StorageLike | BackupOptions;
  /**
   * Where the store keeps its journal, so that it outlives the machine: the URL of a bucket or folder, such as
   * `s3://bucket/prefix?region=eu-central-1`, `gs://bucket/prefix`, `azblob://account/container/prefix` or
   * `file:///folder`; a driver of unstorage; or a `Storage` of it. The data folder is only a cache then. Not together with
   * another store. `apiKey` and `rsaPrivateKey` must be given. Variable `SERVICE_STORAGE_URL`.
   *
   * @default none: the store is in the data folder
   */
  storage?: StorageLike | string;
  /**
   * When a write is acknowledged, with the option `storage`: `bucket`, once it is in the storage, or `disk`, once it is on the
   * disk of the data folder, from where it is shipped to the storage within a second. If that disk is lost, so is what was
   * not shipped. Variable `SERVICE_DURABILITY`.
   *
   * @default "bucket"
   */
  durability?: Durability;
  /** The time, for tests. @default the system's; with a store in a database, the database's */
  clock?: () => Date;
  /** Sets the timers of jobs: sleeps, deadlines, limits, pauses between tries; for tests. @default by the system's time */
  startTimer?: (milliseconds: number, fn: () => void, purpose?: "schedule" | "running") => () => void;
  /**
   * Milliseconds by which `clock` was advanced. Rate limits that instances share count by the clock of their store, which
   * is advanced by as much for them; for tests. @default never
   */
  advancedBy?: () => number;
  /** Where log lines go. @default standard error */
  logTo?: (line: string) => void;
}

/** `AccessOptions`, checked. */
export interface ResolvedAccess {
  readonly keys: readonly DeclaredKey[];
  readonly signIn: ProxySignIn | OidcSignIn | GithubSignIn | undefined;
}

/** `ServerOptions` with all defaults resolved. */
export interface ResolvedOptions extends Readonly<Omit<PlainSettings, "suspendAfter">> {
  readonly id: string;
  /** What `svc deploy` made this instance from. */
  readonly release: string | undefined;
  readonly agents: readonly AgentDefinition[];
  readonly schedules: readonly ScheduleDefinition[];
  readonly access: ResolvedAccess;
  readonly workspaces: Workspaces;
  readonly receivers: readonly Receiver[];
  readonly plugins: PluginInput;
  readonly account: Account | undefined;
  /** Milliseconds; `undefined` keeps waiting jobs in memory. */
  readonly suspendAfter: number | undefined;
  /** Tells processes apart that `svc start --instances` runs in one folder. */
  readonly place: string | undefined;
  /** When an instance of a shared store counts as dead; a torture test makes it shorter. @default after 15 s */
  readonly leaseTimes: LeaseTimes | undefined;
  /** The file that `svc` runs: isolated agents are loaded from it again. */
  readonly controller: string | undefined;
  /** Gives the build's name. */
  readonly build: () => string;
  readonly store: StoreFactory | undefined;
  /** Where the store's journal is, if not in the data folder. */
  readonly storage: StorageLike | string | undefined;
  /** Where the database is that has the store, if it is not the option `store`. A secret. */
  readonly databaseUrl: string | undefined;
  readonly databaseSchema: string | undefined;
  readonly backup: ResolvedBackup | undefined;
  readonly clock: () => Date;
  /** The same, where it is not given: it follows that of a store which several instances share. */
  readonly ownClock: FollowedClock | undefined;
  readonly startTimer: StartTimer;
  readonly advancedBy: (() => number) | undefined;
  /** `undefined` for standard error. */
  readonly logTo: ((line: string) => void) | undefined;
}

/** The options that the table of settings reads and checks by itself. */
export type PlainSettings = v.InferOutput<typeof PlainSettingsSchema>;

type Environment = Readonly<Record<string, string | undefined>>;

/** A busy machine must not miss it all the time. */
const SHORTEST_LEASE = 500;

/**
 * Fills options from the environment and the defaults; throws `OptionsError` if one is invalid. Secrets do
 * not stay in `process.env`.
 */
export function resolveOptions(
  options: ServerOptions,
  variables: Environment = takeVariables(),
  isTerminal = process.stderr.isTTY === true,
): ResolvedOptions {
  const env = withoutNumbers(variables);
  if (!Array.isArray(options.agents) || options.agents.length === 0) {
    throw new OptionsError("Option agents is empty: pass createServer at least one agent from defineAgent");
  }
  const unknown = unknownOption(options, SETTINGS);
  if (unknown !== undefined) throw new OptionsError(`Cannot use these options: ${unknown}`);
  const ownClock = options.clock ? undefined : new FollowedClock();
  const clock = options.clock ?? ownClock!.now;
  const storage = options.storage ?? textOf(env, "SERVICE_STORAGE_URL");
  if (storage !== undefined && (options.store !== undefined || readDatabaseUrl(env) !== undefined)) {
    throw new OptionsError(
      "There are two stores: use either the option storage or SERVICE_STORAGE_URL, or the option store or SERVICE_DATABASE_URL",
    );
  }
  const checked = checkOptions(PlainSettingsSchema, readPlainSettings({ ...options }, env, { isTerminal }), {
    variables: VARIABLES,
  });
  if (storage === undefined && checked.durability !== "bucket") {
    throw new OptionsError(
      "The option durability (SERVICE_DURABILITY) needs the option storage (SERVICE_STORAGE_URL): without it, writes are acknowledged once they are on the disk",
    );
  }
  const [weak] = describeWeakKeys(checked);
  if (weak !== undefined && checked.environment === "prod") {
    throw new OptionsError(`${weak}. In the environment prod it is refused`);
  }
  return {
    ...checked,
    id: `${hostname()}-${process.pid}`,
    agents: [...options.agents],
    schedules: [...(options.schedules ?? [])],
    access: resolveAccess(options.access),
    workspaces: new Workspaces(options.workspaces),
    receivers: resolveReceivers(options.receivers),
    plugins: options.plugins,
    place: textOf(env, "SVC_PLACE"),
    release: textOf(env, "SVC_RELEASE"),
    controller: textOf(env, "SVC_CONTROLLER"),
    leaseTimes: readLease(env),
    suspendAfter: checked.suspendAfter.milliseconds,
    dataDir: resolve(checked.dataDir),
    account: readAccount(options.account, env),
    build: nameOfBuild(options.build ?? textOf(env, "SERVICE_BUILD")),
    store: options.store,
    storage,
    databaseUrl: options.store === undefined ? readDatabaseUrl(env) : undefined,
    databaseSchema: textOf(env, "SERVICE_DATABASE_SCHEMA"),
    backup: resolveBackup(options.backup, {
      url: textOf(env, "SERVICE_BACKUP_URL"),
      every: textOf(env, "SERVICE_BACKUP_EVERY"),
      keep: textOf(env, "SERVICE_BACKUP_KEEP"),
    }),
    clock,
    ownClock,
    startTimer: options.startTimer ?? new WallTimers(clock).start,
    advancedBy: options.advancedBy,
    logTo: options.logTo,
  };
}

const ACCESS_NAMES: NamesOf<AccessOptions> = { keys: true, signIn: true };

function resolveAccess(access: AccessOptions = {}): ResolvedAccess {
  const unknown = unknownOption(access, ACCESS_NAMES);
  if (unknown !== undefined) throw new OptionsError(`Cannot use option access: ${unknown}`);
  const { keys, signIn } = access;
  if (signIn !== undefined && !SIGN_INS.includes(signIn.kind))
    throw new OptionsError("Option access.signIn must be what proxyAuth or oidc gives");
  return { keys: resolveDeclaredKeys(keys), signIn: signIn as ResolvedAccess["signIn"] };
}

function readLease(env: Environment): LeaseTimes | undefined {
  const dead = textOf(env, "SVC_LEASE");
  if (dead === undefined) return undefined;
  if (Number(dead) >= SHORTEST_LEASE) return leaseTimes(Number(dead));
  throw new OptionsError(`SVC_LEASE must be at least ${SHORTEST_LEASE}, in milliseconds`);
}

/** Its value, which has a password, is in no message. */
function readDatabaseUrl(env: Environment): string | undefined {
  const url = textOf(env, "SERVICE_DATABASE_URL");
  if (url === undefined || isPostgresUrl(url)) return url;
  throw new OptionsError("SERVICE_DATABASE_URL must begin with postgres:// or postgresql://");
}

function readAccount(option: Account | undefined, env: Environment): Account | undefined {
  const account = option ?? {
    workspace_id: textOf(env, "SERVICE_ACCOUNT_WORKSPACE_ID"),
    api_key: textOf(env, "SERVICE_ACCOUNT_API_KEY"),
    api_url: textOf(env, "SERVICE_ACCOUNT_API_URL"),
  };
  if (Object.values(account).every((value) => value === undefined)) return undefined;
  const [unknown] = unknownMembers(AccountSchema, account);
  if (unknown) throw new OptionsError(`Cannot use option account: ${unknown.path} ${unknown.problem}`);
  const result = v.safeParse(AccountSchema, account);
  if (result.success) return result.output;
  const fields = result.issues.map((issue) => v.getDotPath(issue)).join(", ");
  throw new OptionsError(
    `The account is incomplete or invalid (${fields}): set SERVICE_ACCOUNT_WORKSPACE_ID, SERVICE_ACCOUNT_API_KEY and SERVICE_ACCOUNT_API_URL, or none of them`,
  );
}

/** Files are read when somebody asks for the first time. */
function nameOfBuild(given: string | undefined): () => string {
  let name = given;
  return () => {
    name ??= fingerprintOfProject(process.cwd());
    return name;
  };
}
