import type { PackageManager } from "../lock-files.ts";
import type { PipelineLogin, PipelineRight, Repository } from "./pipeline.ts";

/** One kind of job: how it signs in, and the secrets of the repository that it passes on. */
export interface PipelineJob {
  readonly login: PipelineLogin;
  /** Names of variables of `svc deploy` whose values are secrets of the repository. */
  readonly secrets: readonly string[];
  /** Secrets that a job needs that only removes. */
  readonly removalSecrets: readonly string[];
}

/** Everything that a pipeline's file is written from. */
export interface Pipeline {
  readonly repository: Repository;
  /** Folder of the project below the repository's root; empty for the root. */
  readonly folder: string;
  readonly branch: string;
  /** The environment that the branch deploys. */
  readonly environment: string;
  readonly nodeVersion: string;
  readonly manager: PackageManager;
  /** Below the repository's root. */
  readonly lockFile: string;
  /** Commands that install the project's packages by the lock file. */
  readonly install: readonly string[];
  /** Whether `deploy.yaml` says when previews expire. */
  readonly setsExpiry: boolean;
  /** Missing where a platform, or `deploy.yaml`, has no previews. */
  readonly jobs: Readonly<Record<Exclude<PipelineRight, "preview">, PipelineJob>> & {
    readonly preview?: PipelineJob | undefined;
  };
}

/** The command of a job. `--no-install` never fetches a package of that name from a registry. */
export const SVC = "npx --no-install svc";

/** Commands of a pipeline; previews find the branch's name in `SVC_BRANCH`. */
export function commandsOf({ environment, setsExpiry }: Pick<Pipeline, "environment" | "setsExpiry">) {
  const preview = [`SVC_ENV="$(${SVC} deploy ci preview "$SVC_BRANCH")"`];
  return {
    plan: `${SVC} deploy plan --env ${environment} --read-only --comment`,
    deploy: `${SVC} deploy up --env ${environment} --yes`,
    preview: [
      ...preview,
      `${SVC} deploy up --env "$SVC_ENV"${setsExpiry ? "" : " --expires 7d"} --accept-data-loss --yes`,
    ],
    // Any name of a preview: its part of deploy.yaml says where previews are.
    expire: `${SVC} deploy down --expired --env preview-any --accept-data-loss --remove-keys --yes`,
    remove: [...preview, `${SVC} deploy down --env "$SVC_ENV" --accept-data-loss --remove-keys --yes`],
  };
}
