import type * as v from "valibot";
import type { ResourceAction } from "../core/models/deployment.ts";
import type { DeployTools } from "./tools.ts";

type MaybePromise<T> = T | Promise<T>;

/**
 * Schema of a platform's own options: gives the command-line flags, their help, their checks and their type.
 * An entry `minInstances` is the flag `--min-instances`; boolean entries take no value, number entries get a number,
 * all others the text as typed; `v.description` is the help. An entry that is not optional must be given.
 * `minInstances` and `maxInstances` are known to the engine, which holds them to what the store allows.
 */
export type FlagsSchema = v.ObjectSchema<v.ObjectEntries, undefined>;

/** What one deployment is about; the same for every command on it. */
export interface DeployTarget<Flags = Record<string, unknown>> {
  /** Base name, as typed. */
  readonly name: string;
  readonly environment: "dev" | "staging" | "prod";
  /** `${name}-${environment}`: what the platform's resources are called. */
  readonly serviceName: string;
  readonly region: string;
  readonly projectId: string | undefined;
  readonly port: number;
  readonly flags: Flags;
  /** Folder of the project, absolute. */
  readonly cwd: string;
}

/** Where a platform keeps a secret: enough to refer to it, never its value. */
export interface SecretRef {
  /** The environment variable it becomes. */
  readonly name: string;
  /** The platform's own reference, pinned to a version where it has versions. */
  readonly ref: string;
}

/** A secret of this target that the platform keeps. */
export interface StoredSecret extends SecretRef {
  /** The keyed hash that `putSecrets` was given for it, where the platform can keep one beside it. */
  readonly hash?: string;
  /** Set where a run was killed while it stored it, so that its value may not have arrived. */
  readonly unfinished?: boolean;
}

/** A secret to be kept. */
export interface SecretValue {
  readonly value: string;
  /** Keyed hash of the value: to be kept beside it (in an annotation or tag) where the platform can. */
  readonly hash: string;
}

/** What should run. */
export interface ReleaseSpec {
  /** Image by digest, `repository@sha256:…`; by tag only in a plan made before the build. */
  readonly image: string;
  readonly imageTag: string;
  readonly port: number;
  /** All plain variables, `SERVICE_HOST`, `SERVICE_PORT` and, once it is known, `SERVICE_PUBLIC_URL` among them. */
  readonly env: Readonly<Record<string, string>>;
  /** References of secrets by environment variable. In a plan only the names are known. */
  readonly secrets: Readonly<Record<string, SecretRef | undefined>>;
  /** Keyed hash of each secret's value, to tell whether it changed. A secret only the platform knows has none. */
  readonly secretHashes: Readonly<Record<string, string>>;
  readonly publicUrl: string | undefined;
  readonly healthPath: string;
}

/** What runs. */
export interface Release {
  readonly id: string;
  readonly revision: string | undefined;
  readonly image: string | undefined;
  readonly url: string | undefined;
  /** The platform's word for its state. */
  readonly status: string;
  /** True while it serves no users: the engine checks it at `probeUrl` and calls `promote`. */
  readonly noTraffic?: boolean;
  /** Where this very revision answers, if that is not `url`. */
  readonly probeUrl?: string;
  /** Plain variables, without those the platform adds by itself. */
  readonly env?: Readonly<Record<string, string>>;
  readonly secretNames?: readonly string[];
  readonly resources?: { readonly cpu?: string; readonly memory?: string; readonly instances?: string };
  /** What `rollback` needs to come back to it; goes to the state file, so it holds no secret. */
  readonly data?: Readonly<Record<string, unknown>>;
}

/** One thing found by a preflight. An error stops the deployment. */
export interface Finding {
  readonly level: "ok" | "warning" | "error";
  /** What was looked at. */
  readonly subject: string;
  readonly message: string;
  /** What to do, as a command or a sentence. */
  readonly fix?: string;
}

/** Login to an image registry. */
export interface RegistryAuth {
  readonly registry: string;
  readonly username: string;
  readonly password: string;
  /** What to do where the registry does not take it: the command that logs in again. */
  readonly renew?: string;
}

/** What a remote build gets. */
export interface BuildContext {
  /** SHA-256 over names, modes and contents of the files, in hexadecimal: equal for equal files. */
  readonly hash: string;
  /**
   * The project as `.tar.gz` in pieces: ignore rules applied, `Dockerfile` at its root, the same bytes for the same files.
   * It is made while it is read, anew with each call. Reading rejects where the files are no longer those of `hash`.
   */
  pack(): AsyncIterable<Uint8Array>;
  readonly tag: string;
  /** Receives a line of the build's log. */
  readonly onLine: (line: string) => void;
}

/** What a deployment will cost and take, in words for people. */
export interface Estimate {
  readonly cost?: string;
  readonly duration?: string;
}

/** Who holds a target. */
export interface LockHolder {
  readonly id: string;
  /** For people: user, machine, process, command. */
  readonly holder: string;
  readonly since: string;
}

/**
 * One target on one platform. `preflight`, `inspect`, `listSecrets`, `plan`, `estimate`, `predictUrl`, `readSecret`, `history`
 * and `logs` never write. Every other call to the outside that changes something goes through `tools.journal`.
 */
export interface PlatformSession {
  /** Credentials, permissions, APIs, quotas and names. */
  preflight(): Promise<Finding[]>;
  /** What runs now. */
  inspect(): Promise<Release | undefined>;
  /** The secrets of this target that the platform keeps. */
  listSecrets(): Promise<StoredSecret[]>;
  /**
   * What `prepare` and `release` would change, field by field; all `noop` where they would change nothing.
   * Image and secrets are planned by the engine: a secret whose reference is missing in `spec` will be new or changed.
   */
  plan(spec: ReleaseSpec, live?: Release): Promise<ResourceAction[]>;
  estimate?(spec: ReleaseSpec, live?: Release): Promise<Estimate>;
  /** The URL, where the platform lets it be known before the first release. */
  predictUrl?(): Promise<string | undefined>;
  /** Takes the target for this run across machines; rejects with `DeployError` "locked" naming the holder. */
  lock?(holder: LockHolder): Promise<() => Promise<void>>;
  /** Makes what a release needs besides (APIs, roles): after consent, before the build. Twice changes nothing. */
  prepare?(): Promise<void>;
  /** The name under which an image is pushed. */
  imageRef(tag: string): string;
  /** Makes sure that the registry is there and gives a login to it; nothing where pushing needs none. */
  registryLogin(): Promise<RegistryAuth | undefined>;
  /** Digest of the image that the registry holds under a tag; present only where a tag cannot be moved once it is given. */
  imageDigest?(tag: string): Promise<string | undefined>;
  /** Present only where this target builds remotely: builds and pushes, and resolves with the digest, `sha256:…`. */
  build?(context: BuildContext, ref: string): Promise<string>;
  /** Creates or updates the given secrets, which are new or changed; others stay as they are. */
  putSecrets(values: Readonly<Record<string, SecretValue>>): Promise<Record<string, SecretRef>>;
  /** Makes the spec run and waits for the platform's own operation. Twice with one spec changes nothing. */
  release(spec: ReleaseSpec): Promise<Release>;
  /** Gives a release that is held back its traffic. */
  promote?(release: Release): Promise<Release>;
  /** Goes back to an earlier release; also called when a held release failed its checks. */
  rollback(to: Release): Promise<Release>;
  /** Earlier releases that `rollback` can go to, newest first, where the platform knows more than the state file. */
  history?(): Promise<Release[]>;
  /** Stops all instances; resolves at once where the platform cannot. */
  scaleToZero(): Promise<void>;
  /** Removes the service and what was created for it, images and foreign resources excepted. Twice is no error. */
  remove(): Promise<void>;
  dropSecrets(names: readonly string[]): Promise<void>;
  /** The value of a secret that the platform keeps, where whoever deploys may read it; nothing where not. */
  readSecret?(name: string): Promise<string | undefined>;
  /** The command by which a person reads a secret from the platform's vault. */
  secretCommand?(name: string): string | undefined;
  logs?(options: { readonly since: Date; readonly follow: boolean }): AsyncIterable<string>;
  /** Headers for the health check, such as an identity token of a service that is not public. */
  probeHeaders?(): Promise<Record<string, string>>;
  /**
   * Why the service cannot be asked from here although the platform itself checks its health; nothing where it can be.
   * A release then counts by the platform's own check, and is told so.
   */
  probeBlocked?(): Promise<string | undefined>;
  close?(): MaybePromise<void>;
}

/** A value and the place it was found in, for people. */
export interface Sourced {
  readonly value: string;
  /** A variable, a flag or a file. */
  readonly source: string;
}

/** What the provider's own tools are set to on this machine. */
export interface PlatformDefaults {
  readonly region?: Sourced | undefined;
  readonly projectId?: Sourced | undefined;
}

/** A deploy target, loaded only when it is used. */
export interface Platform<Flags = Record<string, unknown>> {
  readonly name: string;
  readonly defaultRegion: string;
  readonly flags: FlagsSchema;
  /** Whether files written by the service are gone after a restart. @default false */
  readonly ephemeralDisk?: boolean;
  /** Proxies of the platform in front of a service; becomes its `SERVICE_TRUST_PROXY`. @default 0 */
  readonly proxies?: number;
  /** Seconds for rollout and health where the common 300 are too few. */
  readonly timeout?: number;
  /** Further rule for `${name}-${environment}`: resolves with what is wrong with it. */
  checkName?(serviceName: string): string | undefined;
  /** Region and project from the provider's standard variables and files, used where none was typed. Reads only. */
  defaults?(env: Readonly<Record<string, string | undefined>>): MaybePromise<PlatformDefaults>;
  connect(target: DeployTarget<Flags>, tools: DeployTools): MaybePromise<PlatformSession>;
}

/** Imports a platform's module; its default export is the platform. */
export type PlatformLoader = () => Promise<{ default: Platform<never> }>;
