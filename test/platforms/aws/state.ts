import type { Answer } from "../http-server.ts";
import type { ImageRunner, Instance } from "../instances.ts";
import type { RunnerDomain } from "./apprunner-domains.ts";

export type Json = Record<string, unknown>;

export interface StoredSecret {
  readonly arn: string;
  readonly name: string;
  tags: { Key: string; Value: string }[];
  readonly versions: Map<string, string>;
  current: string;
  deleted: boolean;
}

export interface StoredRole {
  readonly name: string;
  readonly arn: string;
  readonly principal: string;
  readonly tags: { Key: string; Value: string }[];
  readonly attached: Set<string>;
  readonly inline: Map<string, string>;
  /** Times that it still cannot be assumed. */
  notReady: number;
}

export interface RunnerService {
  readonly name: string;
  readonly id: string;
  readonly arn: string;
  status: string;
  config: Json;
  scaling: string;
  readonly tags: { Key: string; Value: string }[];
  readonly operations: RunnerOperation[];
  readonly domains: RunnerDomain[];
  instance: Instance | undefined;
}

export interface RunnerOperation {
  readonly id: string;
  readonly type: string;
  status: string;
  reads: number;
  finish(): Promise<string>;
}

export interface ExpressService {
  readonly name: string;
  readonly arn: string;
  status: string;
  active: (Json & { serviceRevisionArn: string }) | undefined;
  readonly tags: { key: string; value: string }[];
  readonly infrastructureRoleArn: string;
  readonly deployments: ExpressDeployment[];
  instance: Instance | undefined;
  draining: number;
}

export interface ExpressDeployment {
  readonly arn: string;
  status: string;
  statusReason?: string;
  stage: string;
  reads: number;
  readonly target: Json & { serviceRevisionArn: string };
}

/** One account of the emulated cloud, with switches for what real accounts have been seen to do. */
export interface AwsState {
  /** The token that is exchanged for a role's keys. With it, only calls with these keys are answered. */
  federation?: { readonly token: string; readonly role: string };
  readonly account: string;
  readonly region: string;
  readonly images: ImageRunner;
  readonly repositories: Map<string, { tags: unknown }>;
  readonly secrets: Map<string, StoredSecret>;
  readonly roles: Map<string, StoredRole>;
  readonly services: RunnerService[];
  readonly scaling: {
    arn: string;
    name: string;
    min: number;
    max: number;
    requests: number;
    status: string;
  }[];
  readonly express: Map<string, ExpressService>;
  /** Buckets of S3, with what is blocked of public access. */
  readonly buckets: Map<string, { readonly owner: string; blocks: readonly string[] }>;
  readonly logs: { group: string; message: string; timestamp: number }[];
  readonly switches: {
    /** What App Runner answers to an account that it does not take. */
    closed: boolean;
    /** Times that a fresh role cannot be assumed yet. */
    roleDelay: number;
    refuseRepair: boolean;
    failDomains: boolean;
    deniedActions: string[];
    /** Domain of the addresses of ECS Express services. */
    expressDomain: string;
  };
  next(): number;
  uuid(): string;
}

export function newAwsState(images: ImageRunner, region = "us-east-1"): AwsState {
  let counter = 0;
  const next = () => ++counter;
  return {
    account: "123456789012",
    region,
    images,
    repositories: new Map(),
    secrets: new Map(),
    roles: new Map(),
    services: [],
    scaling: [],
    express: new Map(),
    buckets: new Map(),
    logs: [],
    switches: {
      closed: false,
      roleDelay: 0,
      refuseRepair: false,
      failDomains: false,
      deniedActions: [],
      expressDomain: `ecs.${region}.on.aws`,
    },
    next,
    uuid: () => `00000000-0000-4000-8000-${String(next()).padStart(12, "0")}`,
  };
}

export const ok = (body: Json = {}): Answer => ({ status: 200, body });

/** A refusal in the shape of the JSON protocols. */
export function refuse(type: string, message: string, status = 400, member = "message"): Answer {
  return { status, body: { __type: type, [member]: message } };
}

/** Values of secrets by reference, as a role may read them; nothing where it may not. */
export function readSecret(state: AwsState, ref: string, role: StoredRole | undefined): string | undefined {
  const parts = ref.split(":");
  const arn = parts.slice(0, 7).join(":");
  // The name without its six characters names no secret.
  const secret = [...state.secrets.values()].find((one) => one.arn === arn && !one.deleted);
  const allowed = [...(role?.inline.values() ?? [])].some(
    (document) => document.includes(`"${arn}"`) || document.includes('"Resource":"*"'),
  );
  if (!secret || !allowed) return undefined;
  return secret.versions.get(parts[9] || secret.current);
}
