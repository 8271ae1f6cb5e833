import type * as v from "valibot";
import type { MaybePromise } from "../core/base/maybe-promise.ts";
import type { ResourceAction } from "../core/models/deployment.ts";
import type { PlatformLoader } from "../core/models/platform-loader.ts";
import type { PipelineLogin, PipelineRequest } from "./ci/pipeline.ts";
import type { DeployTools } from "./tools.ts";

export type { PlatformLoader };

/**
 * Schema of a platform's own options: defines the command-line flags, their help, validation and types. An
 * entry `minInstances` is the flag `--min-instances`; boolean entries have no value, number entries get a
 * number, all others the text as typed; `v.description` is the help. An entry that is not optional is
 * required. Commands that svc proposes repeat those that are required, and those with
 * `v.metadata({ locates: true })`: without them the service is not found. The engine limits `minInstances` and
 * `maxInstances` to what the store allows.
 */
export type PlatformFlags = v.ObjectSchema<v.ObjectEntries, undefined>;

/** The target of a deployment; the same for every command on it. */
export interface DeployTarget<Flags = Record<string, unknown>> {
  /** Base name, as typed. */
  readonly name: string;
  /** `dev`, `staging`, `prod`, or any other name in lower-case letters, digits and hyphens. */
  readonly environment: string;
  /** `${name}-${environment}`: what the platform's resources are called. */
  readonly serviceName: string;
  readonly region: string;
  readonly projectId: string | undefined;
  readonly port: number;
  /** Bucket that the service is to store its jobs in, as it was given: its URL, or "create". */
  readonly storage?: string | undefined;
  readonly flags: Flags;
  /** Labels of the service by name; null removes one, and those that are not named stay. */
  readonly labels?: Readonly<Record<string, string | null>> | undefined;
  /** Folder of the project, absolute. */
  readonly cwd: string;
  /** Number of places of the deployment, each a target of its own (`Platform.split`). @default 1 */
  readonly places?: number | undefined;
}

/** Where a platform stores a secret: enough to refer to it, never its value. */
export interface SecretRef {
  /** The environment variable it becomes. */
  readonly name: string;
  /** The platform's own reference, pinned to a version: another value has another one. */
  readonly ref: string;
}

/** A secret of this target that the platform stores. */
export interface StoredSecret extends SecretRef {
  /** The keyed hash that `putSecrets` was given for it, if the platform can store one beside it. */
  readonly hash?: string;
  /** Set if a run was killed while storing it, so that its value may be missing. */
  readonly unfinished?: boolean;
}

/** A secret to store. */
export interface SecretValue {
  readonly value: string;
  /** Keyed hash of the value: stored beside it (in an annotation or tag) if the platform can. */
  readonly hash: string;
}

/** What should run. */
export interface ReleaseSpec {
  /** Image by digest, `repository@sha256:…`; by tag only in a plan made before the build. */
  readonly image: string;
  readonly imageTag: string;
  readonly port: number;
  /**
   * All plain variables, including `SERVICE_HOST`, `SERVICE_PORT` and, once it is known,
   * `SERVICE_PUBLIC_URL`; with a store in a bucket, `SERVICE_STORAGE_URL`.
   */
  readonly env: Readonly<Record<string, string>>;
  /** References of secrets by environment variable. In a plan only the names are known. */
  readonly secrets: Readonly<Record<string, SecretRef | undefined>>;
  /** Keyed hash of each secret's value, to detect changes. A secret that only the platform knows has none. */
  readonly secretHashes: Readonly<Record<string, string>>;
  readonly publicUrl: string | undefined;
  readonly healthPath: string;
}

/** What runs. */
export interface Release {
  readonly id: string;
  readonly revision: string | undefined;
  /** Where a deployment can have several places: what is equal in two of them that serve the same; a revision need not be. */
  readonly version?: string;
  readonly image: string | undefined;
  readonly url: string | undefined;
  /** The platform's own name of its state. */
  readonly status: string;
  /** Set where it does not run and no run has seen it healthy: it has no jobs, and is not one to go back to. */
  readonly neverServed?: boolean;
  /** True while it serves no users: the engine checks it at `probeUrl` and calls `promote`. */
  readonly noTraffic?: boolean;
  /** URL of this particular revision, if that is not `url`. */
  readonly probeUrl?: string;
  /** Plain variables, without those the platform adds by itself. */
  readonly env?: Readonly<Record<string, string>>;
  readonly secretNames?: readonly string[];
  /**
   * References of its secrets by variable, as `SecretRef.ref` has them: a secret that was stored since has another one
   * in the vault, and is released. Without them the engine compares by the mark that it sets among the variables.
   */
  readonly secrets?: Readonly<Record<string, string>>;
  /** For people, with units: "0.25 vCPU", "512 MiB", "1–3". */
  readonly resources?: { readonly cpu?: string; readonly memory?: string; readonly instances?: string };
  /** What `rollback` needs to come back to it; stored in the state file, so it must not contain a secret. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** One thing found by a preflight. An error stops the deployment. */
export interface Finding {
  readonly level: "ok" | "warning" | "error";
  /** What was checked. */
  readonly subject: string;
  readonly message: string;
  /** What to do, as a command or a sentence. */
  readonly fix?: string;
}

/** A change of a machine that `setup` makes after consent. */
export interface SetupAction {
  readonly what: string;
  /** The command that runs as root there. */
  readonly command: string;
}

/** Resolves with whether these changes may be made. */
export type SetupConsent = (actions: readonly SetupAction[]) => Promise<boolean>;

/** Login to an image registry. */
export interface RegistryAuth {
  readonly registry: string;
  readonly username: string;
  readonly password: string;
  /** What to do if the registry rejects it: the command that logs in again. */
  readonly renew?: string;
}

/** Input of a remote build. */
export interface BuildContext {
  /** SHA-256 over names, modes and contents of the files, in hexadecimal: equal for equal files. */
  readonly hash: string;
  /**
   * The project as `.tar.gz` in pieces: ignore rules applied, `Dockerfile` at its root, the same bytes for
   * the same files. It is created while it is read, again with each call. Reading rejects if the files no
   * longer match `hash`.
   */
  pack(): AsyncIterable<Uint8Array>;
  readonly tag: string;
  /** Receives a line of the build's log. */
  readonly onLine: (line: string) => void;
}

/** Estimated cost and duration of a deployment. */
export interface Estimate {
  /** What it costs, the date of the prices that this is made from, and where they are published: all three are shown. */
  readonly cost?: { readonly text: string; readonly date: string; readonly source: string };
  /** As text. */
  readonly duration?: string;
}

/** Who holds a target. */
export interface LockHolder {
  readonly id: string;
  /** For people: user, machine, process, command. */
  readonly holder: string;
  readonly since: string;
}

/** How a lock is taken. */
export interface LockRequest {
  /**
   * Longest time that the run needs it: a lock that is older was left behind by a killed run. One that is renewed (`onLease`) may
   * count as left behind much earlier.
   */
  readonly seconds: number;
  /** Takes over a lock that somebody else holds. */
  readonly breakLock: boolean;
  /** Hears of a run that left its lock behind, in the words of its `holder`. */
  readonly onTakeOver?: ((holder: string) => void) | undefined;
  /**
   * Receives how to renew a lock that ends within minutes without that. It resolves with whether the lock is still that of
   * this run.
   */
  readonly onLease?: ((renew: () => Promise<boolean>) => void) | undefined;
}

/**
 * One target on one platform. `preflight`, `inspect`, `listSecrets`, `plan`, `estimate`, `predictUrl`, `readSecret`, `history`
 * and `logs` never write. Every other call to the outside that changes something goes through `tools.journal`.
 */
export interface PlatformSession {
  /** Credentials, permissions, APIs, quotas and names. */
  preflight(): Promise<Finding[]>;
  /**
   * Present only where services run on machines of the user: prepares one, after consent, and resolves with its state. A machine
   * that is ready is not changed.
   */
  setup?(consent: SetupConsent): Promise<Finding[]>;
  /** What runs now. */
  inspect(): Promise<Release | undefined>;
  /** The environments of this base name that svc manages in this place, and since when each is as it is. */
  environments?(): Promise<readonly { readonly environment: string; readonly since?: string | undefined }[]>;
  /** The secrets of this target that the platform stores. */
  listSecrets(): Promise<StoredSecret[]>;
  /**
   * What `prepare` and `release` would change, field by field; all `noop` if they would change nothing. Image
   * and secrets are planned by the engine: a secret whose reference is missing in `spec` will be new or
   * changed.
   */
  plan(spec: ReleaseSpec, live?: Release): Promise<ResourceAction[]>;
  estimate?(spec: ReleaseSpec, live?: Release): Promise<Estimate>;
  /** The URL, if the platform can predict it before the first release. */
  predictUrl?(live?: Release): Promise<string | undefined>;
  /**
   * Locks the target for this run across machines; resolves with how to release it, and rejects with `DeployError`
   * "locked" naming the holder.
   */
  lock?(holder: LockHolder, request: LockRequest): Promise<() => Promise<void>>;
  /**
   * Present only where a database can run beside the service: how the URL of the one that is wanted is made, with a new
   * password; "ends" where the running release has one and the next has none. The URL is made once, and stored as the
   * secret `SERVICE_DATABASE_URL`.
   */
  ownDatabase?(): Promise<(() => string) | "ends" | undefined>;
  /**
   * That database; undefined where the running release has none. `container` and `volume` are names, null where they are missing;
   * `status` is the platform's own name of its state, "absent" without a container.
   */
  databaseStatus?(): Promise<
    | {
        readonly image: string;
        readonly container: string | null;
        readonly volume: string | null;
        readonly status: string;
      }
    | undefined
  >;
  /** Who holds that lock; nobody where it is over its time. For people: it may have changed by now. */
  lockedBy?(): Promise<LockHolder | undefined>;
  /**
   * Creates what else a release needs (APIs, roles): after consent, before the build. A second call changes
   * nothing.
   */
  prepare?(): Promise<void>;
  /** Present only where the platform can create buckets: the URL of the one that "create" means. Always the same. */
  storageUrl?(): Promise<string>;
  /** Whether the service can use this bucket with an identity that the platform gives it. @default false */
  hasAccessTo?(url: string): boolean;
  /**
   * Creates a bucket of `hasAccessTo` if there is none, private and in the service's region, and lets the service use it,
   * and no other: after consent, before the build. A second call changes nothing. `remove` keeps the bucket.
   */
  ensureStorage?(url: string): Promise<void>;
  /** Processor that the image must be built for, as Docker names it, such as `arm64`. @default "amd64" */
  architecture?(): Promise<string>;
  /** The name under which an image is pushed. */
  imageRef(tag: string): string;
  /**
   * Present where an image that svc did not build can be released: why the platform cannot run the one of this name, if it
   * cannot.
   */
  takesImage?(ref: string): string | undefined;
  /**
   * Present only where the machine of the service gets such an image by its own login: brings it there, and rejects where that
   * machine cannot run it. Elsewhere the engine asks the registry.
   */
  pull?(ref: string): Promise<void>;
  /**
   * Makes sure that the registry exists and returns a login to it; undefined if none is needed. With "read" nothing is created:
   * what a registry holds is read before the plan is accepted.
   */
  registryLogin(use?: "read"): Promise<RegistryAuth | undefined>;
  /** Digest of the image that the registry holds under a tag; present only where a tag cannot be moved once it is given. */
  imageDigest?(tag: string): Promise<string | undefined>;
  /**
   * Present only where images reach the target without a registry: brings a local image there, and resolves with its
   * digest or id, `sha256:…`.
   */
  push?(ref: string): Promise<string>;
  /** Present only where this target builds remotely: builds and pushes, and resolves with the digest, `sha256:…`. */
  build?(context: BuildContext, ref: string): Promise<string>;
  /** Creates or updates the given secrets, which are new or changed; others stay as they are. */
  putSecrets(values: Readonly<Record<string, SecretValue>>): Promise<Record<string, SecretRef>>;
  /**
   * Rolls out the spec and waits for the platform's own operation. A second call with the same spec changes
   * nothing.
   */
  release(spec: ReleaseSpec): Promise<Release>;
  /**
   * Runs a command of a shell once in the image of a release, with its variables and secrets, beside what runs now, and not
   * twice at the same time; `onLine` gets its output. Resolves with its exit code. Missing where a platform cannot.
   */
  runOnce?(spec: ReleaseSpec, command: string, onLine: (line: string) => void): Promise<number>;
  /** Shifts traffic to a release that has none. */
  promote?(release: Release): Promise<Release>;
  /** Rolls back to an earlier release; also called when a release without traffic failed its checks. */
  rollback(to: Release): Promise<Release>;
  /**
   * Earlier releases that `rollback` can go to, newest first, if the platform knows more than the state file.
   */
  history?(): Promise<Release[]>;
  /**
   * Present only where a release that fails is restarted forever: stops it, unless it is healthy, and keeps it with its log.
   * Called after a first release that failed; resolves with whether it is stopped.
   */
  stopFailed?(): Promise<boolean>;
  /** Stops all instances; resolves immediately if the platform cannot. */
  scaleToZero(): Promise<void>;
  /**
   * Removes the service and what was created for it, images and foreign resources excepted. A second call
   * succeeds.
   */
  remove(): Promise<void>;
  /** Set if `remove` keeps the files of the service, with its jobs. */
  readonly keepsFiles?: boolean;
  /**
   * What the service has beside itself and its secrets, such as volumes and roles, whether or not it runs: what `remove` deletes,
   * and what it leaves (`noop`), each with what it is for and how a service has it again. Reads only.
   */
  ownResources?(): Promise<readonly ResourceAction[]>;
  /** Options of `svc deploy up` with which a service has again what an earlier one has left. Reads only. */
  optionsOfLeft?(): Promise<readonly string[]>;
  /** Set if secrets are a part of the service, so that `remove` ends them too, and nobody can read them. */
  readonly endsSecrets?: boolean;
  /** Writers of a release in formats of the platform's own tools, by the format's name; they only read. */
  readonly exports?: Readonly<Record<string, (spec: ReleaseSpec) => Promise<string>>>;
  /**
   * What the running service sends as its open jobs (`GET /utils/open-jobs`), where the platform can ask it from inside,
   * without its key and public address.
   */
  openJobs?(): AsyncIterable<Uint8Array>;
  /** Present only where a service's jobs are on the user's own machine: what its running service sends as its backup. */
  backup?(): AsyncIterable<Uint8Array>;
  /**
   * Replaces the files with its jobs by these, a tar archive with their checksums in its file SUMS; the service is stopped
   * meanwhile. Resolves with where the former files are.
   */
  restore?(files: AsyncIterable<Uint8Array>): Promise<string>;
  dropSecrets(names: readonly string[]): Promise<void>;
  /**
   * The value of a secret that the platform stores, if the deploying user may read it; else undefined. With the reference that
   * the running release has (`Release.secrets`), its value of then, which the stored one may have replaced.
   */
  readSecret?(name: string, ref?: string): Promise<string | undefined>;
  /**
   * The reference to a secret that others keep in the platform's vault, as `release` takes it; its value is not read.
   * Rejects where there is none of this name. Missing where the platform has no vault.
   */
  referTo?(name: string): Promise<string>;
  /** The command by which a person reads a secret from the platform's vault. */
  secretCommand?(name: string): string | undefined;
  /**
   * The program and its arguments that run a command in the container that serves; with `terminal`, for a person at the
   * terminal of this process. Rejects where nothing serves. Missing where a platform lets nobody in.
   */
  enter?(command: readonly string[], terminal: boolean): Promise<readonly string[]>;
  logs?(options: { readonly since: Date; readonly follow: boolean }): AsyncIterable<string>;
  /** Headers for the health check, such as an identity token of a service that is not public. */
  probeHeaders?(): Promise<Record<string, string>>;
  /**
   * Why the service cannot be reached from here although the platform itself checks its health; undefined if
   * it can be. The platform's own check then decides, and the report says so.
   */
  probeBlocked?(): Promise<string | undefined>;
  close?(): MaybePromise<void>;
}

/** A value and where it was found, as text. */
export interface Sourced {
  readonly value: string;
  /** A variable, a flag or a file. */
  readonly source: string;
}

/** The configuration of the provider's own tools on this machine. */
export interface PlatformDefaults {
  readonly region?: Sourced | undefined;
  readonly projectId?: Sourced | undefined;
}

/** A deploy target, loaded only when it is used. */
export interface Platform<Flags = Record<string, unknown>> {
  readonly name: string;
  readonly defaultRegion: string;
  readonly flags: PlatformFlags;
  /** Whether files written by the service are lost at a restart. @default false */
  readonly ephemeralDisk?: boolean;
  /**
   * Values of its options, where they are not given, for a service that begins with a database for its jobs, or moves
   * to one: its scaling, and CPU between requests.
   */
  readonly withDatabase?: Readonly<Record<string, unknown>>;
  /** Whether, for minutes, the old and the new instances of a release both get requests. @default false */
  readonly splitsTraffic?: boolean;
  /** Proxies of the platform in front of a service; becomes its `SERVICE_TRUST_PROXY`. @default 0 */
  readonly proxies?: number;
  /** Seconds for rollout and health if the default 300 are too few. */
  readonly timeout?: number;
  /** What tells two targets of the same service name apart besides the platform, such as their machine. */
  placeOf?(flags: Flags): string | undefined;
  /** The options of each place that these name, such as machines; the same service runs in all of them, on one store. */
  split?(flags: Flags): readonly Readonly<Record<string, unknown>>[];
  /** Further rule for `${name}-${environment}`: resolves with the problem, if any. */
  checkName?(serviceName: string): string | undefined;
  /** Rule for a label of the user: resolves with the problem, if any. Missing where services have no labels. */
  checkLabel?(name: string, value: string): string | undefined;
  /**
   * Region and project from the provider's standard variables and files, used if none was typed. Only reads.
   */
  defaults?(env: Readonly<Record<string, string | undefined>>): MaybePromise<PlatformDefaults>;
  /** How a job of a pipeline signs in, and what a person does for that once. Reads and changes nothing. */
  pipeline?(request: PipelineRequest<Flags>): PipelineLogin;
  connect(target: DeployTarget<Flags>, tools: DeployTools): MaybePromise<PlatformSession>;
}

declare module "../core/models/platform-loader.ts" {
  /** Imports a platform's module; its default export is the platform. */
  interface PlatformLoader {
    // biome-ignore lint/style/useShorthandFunctionType: it is merged
    (): Promise<{ default: Platform<never> }>;
  }
}
