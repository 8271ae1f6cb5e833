import type * as v from "valibot";
import type { ResourceAction } from "../models/deployment.ts";
import type { DeployTools } from "./tools.ts";

type MaybePromise<T> = T | Promise<T>;

/** Schema of a platform's own options: gives the command-line flags, their help, their checks and their type. */
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
  readonly name: string;
  /** The platform's own reference, pinned to a version where it has versions. */
  readonly ref: string;
}

/** What should run. */
export interface ReleaseSpec {
  /** Image by digest, `repository@sha256:…`; by tag only in a plan made before the build. */
  readonly image: string;
  readonly imageTag: string;
  readonly port: number;
  readonly env: Readonly<Record<string, string>>;
  /** References of secrets by environment variable. In a plan only the names are known. */
  readonly secrets: Readonly<Record<string, SecretRef | undefined>>;
  /** Keyed hash of each secret's value, to tell whether it changed. */
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
}

/** One target on one platform. `preflight`, `inspect` and `plan` never write. */
export interface PlatformSession {
  /** Credentials, permissions, APIs, quotas and names. */
  preflight(): Promise<Finding[]>;
  /** What runs now. */
  inspect(): Promise<Release | undefined>;
  /** What `release` would change, field by field. */
  plan(spec: ReleaseSpec, live?: Release): Promise<ResourceAction[]>;
  /** The URL, where the platform lets it be known before the first release. */
  predictUrl?(): Promise<string | undefined>;
  /** The name under which an image is pushed. */
  imageRef(tag: string): string;
  /** Makes sure that the registry is there and gives a login to it. */
  registryLogin(): Promise<RegistryAuth>;
  /** Builds and pushes remotely; resolves with the digest. */
  build?(context: string, ref: string): Promise<string>;
  /** Creates or updates secrets; a value that did not change is not written again. */
  putSecrets(values: Readonly<Record<string, string>>): Promise<Record<string, SecretRef>>;
  /** Makes the spec run and waits for the platform's own operation. Twice with one spec changes nothing. */
  release(spec: ReleaseSpec): Promise<Release>;
  /** Gives a release that serves no users yet its traffic; only where `release` could hold it back. */
  promote?(release: Release): Promise<Release>;
  rollback(to: Release): Promise<Release>;
  scaleToZero(): Promise<void>;
  remove(): Promise<void>;
  dropSecrets(names: readonly string[]): Promise<void>;
  logs?(since: Date): AsyncIterable<string>;
  close?(): MaybePromise<void>;
}

/** A deploy target, loaded only when it is used. */
export interface Platform<Flags = Record<string, unknown>> {
  readonly name: string;
  readonly defaultRegion: string;
  readonly flags: FlagsSchema;
  connect(target: DeployTarget<Flags>, tools: DeployTools): MaybePromise<PlatformSession>;
}

/** Imports a platform's module; its default export is the platform. */
export type PlatformLoader = () => Promise<{ default: Platform<never> }>;
