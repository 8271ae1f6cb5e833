/** The parts of an app that are read or written here; everything else passes through untouched. */
export interface App {
  readonly id: string;
  readonly spec: AppSpec;
  readonly default_ingress?: string;
  readonly live_url?: string;
  /** How far each domain of the spec is. */
  readonly domains?: readonly { readonly spec?: AppDomain; readonly phase?: string }[];
  readonly active_deployment?: Deployment;
  readonly in_progress_deployment?: Deployment;
  readonly pending_deployment?: Deployment;
}

export interface AppSpec {
  readonly name: string;
  readonly region?: string;
  readonly services?: readonly AppService[];
  readonly domains?: readonly AppDomain[];
  readonly ingress?: { readonly rules?: readonly unknown[] };
  readonly maintenance?: { readonly enabled?: boolean; readonly archive?: boolean };
}

export interface AppDomain {
  readonly domain?: string;
  readonly type?: string;
}

export interface AppService {
  readonly name: string;
  readonly image?: AppImage;
  readonly envs?: readonly AppEnv[];
  readonly http_port?: number;
  readonly instance_count?: number;
  readonly instance_size_slug?: string;
  readonly autoscaling?: {
    readonly min_instance_count?: number;
    readonly max_instance_count?: number;
    readonly metrics?: unknown;
  };
  readonly health_check?: { readonly http_path?: string };
}

export interface AppImage {
  readonly registry_type?: string;
  readonly repository?: string;
  readonly digest?: string;
  readonly tag?: string;
}

export interface AppEnv {
  readonly key: string;
  readonly value?: string;
  readonly scope?: string;
  readonly type?: string;
}

export interface Deployment {
  readonly id: string;
  readonly phase?: string;
  readonly cause?: string;
  /** The deployment that a rollback went back to. */
  readonly cloned_from?: string;
  readonly spec?: AppSpec;
  readonly created_at?: string;
  readonly progress?: { readonly steps?: readonly ProgressStep[] };
}

export interface ProgressStep {
  readonly name?: string;
  readonly status?: string;
  readonly steps?: readonly ProgressStep[];
  readonly reason?: { readonly code?: string; readonly message?: string };
}
