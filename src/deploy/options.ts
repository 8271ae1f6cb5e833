/** Options that every deploy command shares, resolved. */
export interface DeployOptions {
  /** Name of the platform, where it was typed. */
  readonly platform?: string | undefined;
  readonly name?: string | undefined;
  readonly env: string;
  readonly region?: string | undefined;
  readonly projectId?: string | undefined;
  /** Port that the service listens on. @default that of the running service, else 8000 */
  readonly port?: number | undefined;
  /** Tag of the image. @default from the git commit */
  readonly image?: string | undefined;
  /** An image by its digest that is released as it is. @default one that is built */
  readonly imageRef?: string | undefined;
  readonly generateApiKey: boolean;
  readonly generateRsa: boolean;
  /** The key that this run replaces by a new one; the present one stays valid beside it. */
  readonly rotateKey?: "rsa" | "api" | undefined;
  /** Print a generated API key, once. */
  readonly showApiKey?: boolean | undefined;
  /** Whether a failed release is rolled back. */
  readonly rollback: boolean;
  /** Time after which the environment may be removed by `down --expired`, such as `7d`; `never` takes it away. */
  readonly expires?: string | undefined;
  /** Time for the running service to end its jobs before it is replaced, such as `10m`. @default not at all */
  readonly drain?: string | undefined;
  /** Seconds for rollout and health. @default the platform's, else 300 */
  readonly timeout?: number | undefined;
  /** Seconds for the build and the push. */
  readonly buildTimeout: number;
  /** Public URL of the service. @default the platform's */
  readonly publicUrl?: string | undefined;
  /** Bucket that the service stores its jobs in: its URL, or "create". @default unchanged */
  readonly storage?: string | undefined;
  readonly sourceDir?: string | undefined;
  readonly controllerFile?: string | undefined;
  /** The user's own Dockerfile, relative to the project. @default the generated one */
  readonly dockerfile?: string | undefined;
  /** Image with Debian and Node that the generated one starts from. @default the slim one of the project's Node */
  readonly baseImage?: string | undefined;
  /** Debian packages of the image, separated by spaces. */
  readonly apt?: string | undefined;
  /** Continue even if jobs that are open now will be lost. */
  readonly acceptDataLoss: boolean;
  /** Remove, with a service, also the keys without which its jobs that stay cannot be read. */
  readonly removeKeys?: boolean | undefined;
  /** Deploy to prod even if jobs are in files of a disk that does not last. */
  readonly acceptEphemeralDisk?: boolean | undefined;
  /**
   * Whether open jobs stop the deployment that the new code does not fit, and those of which that is not known: both, only
   * the former (`unchecked`), or none (`ok`). @default "stop"
   */
  readonly heldJobs?: "stop" | "unchecked" | "ok" | undefined;
  /** Take over the lock of another run, which is dead. */
  readonly breakLock?: boolean | undefined;
  /** Overwrite generated files that were edited. */
  readonly overwriteFiles: boolean;
}

export const DEFAULT_OPTIONS: DeployOptions = {
  env: "dev",
  generateApiKey: false,
  generateRsa: false,
  rollback: true,
  buildTimeout: 900,
  acceptDataLoss: false,
  overwriteFiles: false,
};

/** Port of a service that does not exist yet. */
export const DEFAULT_PORT = 8000;
/** Seconds for rollout and health if neither the command nor the platform sets a limit. */
export const DEFAULT_TIMEOUT = 300;
