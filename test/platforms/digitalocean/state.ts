import type { ImageRunner, Instance } from "../instances.ts";

export type Json = Record<string, unknown>;

export interface SpecJson extends Json {
  name: string;
  region?: string;
  services?: ServiceJson[];
  domains?: { domain: string; type?: string }[];
  maintenance?: { archive?: boolean };
}

export interface ServiceJson extends Json {
  name: string;
  image?: { registry_type?: string; registry?: string; repository?: string; digest?: string; tag?: string };
  envs?: { key: string; value?: string; scope?: string; type?: string }[];
  instance_count?: number;
  instance_size_slug?: string;
  autoscaling?: Json;
  http_port?: number;
}

export interface StoredDeployment {
  readonly id: string;
  phase: string;
  readonly cause: string;
  readonly spec: SpecJson;
  reads: number;
  clonedFrom?: string;
  reason?: { code: string; message: string };
  instance?: Instance;
}

export interface StoredApp {
  readonly id: string;
  spec: SpecJson;
  readonly deployments: StoredDeployment[];
  active: StoredDeployment | undefined;
  pinned: boolean;
  /** Domains whose records lead to the app. */
  reached?: Set<string>;
}

/** One account of the emulated cloud, with switches for what real accounts have been seen to do. */
export interface DigitalOceanState {
  readonly token: string;
  readonly images: ImageRunner;
  readonly registries: { name: string; region: string; tier: string }[];
  readonly apps: Map<string, StoredApp>;
  /** Secrets by the encrypted text they are shown as. */
  readonly vault: Map<string, string>;
  readonly switches: {
    autoRollback: boolean;
    status: "active" | "warning" | "locked";
    pinAfterRollback: boolean;
  };
  readonly logins: { query: Record<string, string> }[];
  /** Where what the app writes is pushed as it is written. */
  liveLog: string | undefined;
  next(): number;
}

export function newDigitalOceanState(images: ImageRunner): DigitalOceanState {
  let counter = 0;
  return {
    token: "lab-do-token",
    images,
    registries: [],
    apps: new Map(),
    vault: new Map(),
    switches: { autoRollback: false, status: "active", pinAfterRollback: false },
    logins: [],
    liveLog: undefined,
    next: () => ++counter,
  };
}

export function newId(state: DigitalOceanState): string {
  return `00000000-0000-4000-8000-${String(state.next()).padStart(12, "0")}`;
}
