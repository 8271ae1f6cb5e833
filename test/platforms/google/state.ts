import type { ImageRunner, Instance } from "../instances.ts";
import type { StoredDomain } from "./run-domains.ts";
import type { Failure } from "./run-rollout.ts";

export type Json = Record<string, unknown>;

export interface StoredRevision {
  readonly name: string;
  readonly resource: Json;
  readonly instance: Instance | undefined;
}

export interface StoredService {
  resource: Json & { etag: string; generation: string };
  readonly revisions: StoredRevision[];
  created: number;
  policy: Policy;
  /** A rollout under way: how many more reads until it ends, and what then happens. */
  failure?: Failure | undefined;
  rollout: { reads: number; finish(): Promise<void> } | undefined;
}

export interface Policy {
  version?: number;
  etag: string;
  bindings: { role: string; members: string[]; condition?: unknown }[];
}

export interface StoredOperation {
  name: string;
  /** Reads until it ends. */
  reads: number;
  finish(): Promise<{ error?: { code: number; message: string }; response?: Json }>;
  ended?: { error?: { code: number; message: string }; response?: Json };
  metadata?: Json;
}

export interface StoredSecret {
  readonly resource: Json;
  readonly versions: { readonly data: string }[];
  policy: Policy;
}

/** One project of the emulated cloud, with switches for what real projects have been seen to do. */
export interface GoogleState {
  readonly project: string;
  readonly number: string;
  readonly region: string;
  readonly token: string;
  /** Tokens that are exchanged: only this one, of this provider, for this account. Without it, each one is. */
  federation?: { readonly subject: string; readonly audience: string; readonly account: string };
  /** The service account that the token is of, if it is of one that may issue identity tokens in its own name. */
  account?: string;
  /** Identity tokens that were issued, with the address that they are for. */
  readonly idTokens: Map<string, string>;
  readonly images: ImageRunner;
  readonly apis: Set<string>;
  /** Calls that still answer "disabled" after an API was enabled. */
  propagation: number;
  readonly lacking: Set<string>;
  readonly repositories: Map<string, Json>;
  readonly secrets: Map<string, StoredSecret>;
  readonly services: Map<string, StoredService>;
  readonly domains: Map<string, StoredDomain>;
  /** What the caller has shown to own. */
  readonly verifiedDomains: string[];
  readonly operations: Map<string, StoredOperation>;
  readonly buckets: Map<
    string,
    {
      projectNumber: string;
      /** Whether everybody may read what it is, in whichever project. */
      open?: boolean;
      objects: Map<string, { generation: string; data: Buffer }>;
      resource?: Json;
      policy?: Policy;
    }
  >;
  readonly logs: Json[];
  readonly switches: {
    forbidAllUsers: boolean;
    forbidInvokerCheckOff: boolean;
    billing: boolean;
    failBuild: boolean;
    noSubmitApi: boolean;
    unreadableLogs: boolean;
    noDomainMappings: boolean;
    domainsDenied: boolean;
    /** Digest that a remote build pushes. */
    builtImage: string | undefined;
  };
  next(): number;
}

export function newGoogleState(options: {
  images: ImageRunner;
  project?: string;
  region?: string;
}): GoogleState {
  let counter = 0;
  return {
    project: options.project ?? "demo-project",
    number: "123456789012",
    region: options.region ?? "us-central1",
    token: "lab-google-token",
    images: options.images,
    idTokens: new Map(),
    apis: new Set(),
    propagation: 0,
    lacking: new Set(),
    repositories: new Map(),
    secrets: new Map(),
    services: new Map(),
    domains: new Map(),
    verifiedDomains: ["example.com"],
    operations: new Map(),
    buckets: new Map(),
    logs: [],
    switches: {
      forbidAllUsers: false,
      forbidInvokerCheckOff: false,
      billing: true,
      failBuild: false,
      noSubmitApi: false,
      unreadableLogs: false,
      noDomainMappings: false,
      domainsDenied: false,
      builtImage: undefined,
    },
    next: () => ++counter,
  };
}

export function newPolicy(state: GoogleState): Policy {
  return { etag: etagOf(state), bindings: [] };
}

export function etagOf(state: GoogleState): string {
  return Buffer.from(`etag-${state.next()}`).toString("base64");
}

/** Starts a long-running operation that ends after so many reads. */
export function startOperation(
  state: GoogleState,
  parent: string,
  finish: StoredOperation["finish"],
  reads = 2,
  metadata?: Json,
): StoredOperation {
  const name = `${parent}${parent === "" ? "" : "/"}operations/${parent === "" ? "acf.p2-" : ""}${state.next()}-emulated`;
  const operation: StoredOperation = { name, reads, finish, ...(metadata ? { metadata } : {}) };
  state.operations.set(name, operation);
  return operation;
}

export async function readOperation(state: GoogleState, name: string): Promise<Json | undefined> {
  const operation = state.operations.get(name);
  if (!operation) return undefined;
  if (operation.ended === undefined && operation.reads-- <= 0) operation.ended = await operation.finish();
  return operationJson(operation);
}

export function operationJson(operation: StoredOperation): Json {
  const { name, ended, metadata } = operation;
  return { name, ...(metadata ? { metadata } : {}), ...(ended ? { done: true, ...ended } : {}) };
}
