/** The parts of Cloud Run's v2 resources that are read or written here; everything else passes through untouched. */
export interface Service {
  readonly name?: string;
  readonly etag?: string;
  readonly generation?: string;
  readonly observedGeneration?: string;
  readonly reconciling?: boolean;
  readonly uri?: string;
  readonly urls?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly updateTime?: string;
  readonly template?: Template;
  readonly scaling?: ServiceScaling;
  readonly traffic?: readonly TrafficTarget[];
  readonly trafficStatuses?: readonly TrafficStatus[];
  readonly invokerIamDisabled?: boolean;
  readonly ingress?: string;
  readonly latestCreatedRevision?: string;
  readonly latestReadyRevision?: string;
  readonly terminalCondition?: Condition;
  readonly conditions?: readonly Condition[];
}

export interface Template {
  readonly revision?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly serviceAccount?: string;
  readonly maxInstanceRequestConcurrency?: number;
  /** Seconds, such as "300s". */
  readonly timeout?: string;
  readonly vpcAccess?: VpcAccess;
  readonly containers?: readonly Container[];
}

export interface VpcAccess {
  readonly connector?: string;
  readonly egress?: string;
  readonly networkInterfaces?: readonly {
    readonly network?: string;
    readonly subnetwork?: string;
    readonly tags?: readonly string[];
  }[];
}

export interface Container {
  readonly image?: string;
  readonly env?: readonly EnvVar[];
  readonly ports?: readonly { readonly name?: string; readonly containerPort?: number }[];
  readonly resources?: Resources;
  readonly startupProbe?: Probe;
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueSource?: { readonly secretKeyRef?: { readonly secret: string; readonly version?: string } };
}

export interface Resources {
  readonly limits?: Readonly<Record<string, string>>;
  readonly cpuIdle?: boolean;
  readonly startupCpuBoost?: boolean;
}

export interface Probe {
  readonly httpGet?: { readonly path?: string; readonly port?: number };
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
}

export interface ServiceScaling {
  readonly minInstanceCount?: number;
  readonly maxInstanceCount?: number;
  readonly manualInstanceCount?: number;
  readonly scalingMode?: string;
}

export interface TrafficTarget {
  readonly type?: string;
  readonly revision?: string;
  readonly percent?: number;
  readonly tag?: string;
}

export interface TrafficStatus extends TrafficTarget {
  readonly uri?: string;
}

export interface Condition {
  readonly type?: string;
  readonly state?: string;
  readonly message?: string;
  readonly reason?: string;
  readonly revisionReason?: string;
}

export interface Revision {
  readonly name?: string;
  readonly createTime?: string;
  readonly containers?: readonly Container[];
  readonly conditions?: readonly Condition[];
  readonly reconciling?: boolean;
}

export interface Operation {
  readonly name: string;
  readonly done?: boolean;
  readonly error?: { readonly code?: number; readonly message?: string };
  readonly response?: Readonly<Record<string, unknown>>;
  readonly metadata?: Readonly<Record<string, unknown>>;
}
