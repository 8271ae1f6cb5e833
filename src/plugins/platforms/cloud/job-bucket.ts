import { createHash } from "node:crypto";
import type { ResourceAction } from "../../../core/models/deployment.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Release } from "../../../deploy/platform.ts";
import { storageOf } from "../../../deploy/storage.ts";
import { resourceAction } from "./actions.ts";

/** Folder of the store in a bucket that svc creates: backups may have another. */
const PREFIX = "store";
/** Bucket names have at most 63 characters. */
const LONGEST = 50;

/** Name of the bucket of a service: names are global, so it has a hash of the account and the region. */
export function bucketName(serviceName: string, ...owner: readonly string[]): string {
  const hash = createHash("sha256")
    .update([...owner, serviceName].join("\n"))
    .digest("hex");
  return `${serviceName.slice(0, LONGEST)}-${hash.slice(0, 12)}`;
}

/** The URL of a bucket that svc creates. */
export function bucketUrl(scheme: "s3" | "gs", name: string, region?: string): string {
  return `${scheme}://${name}/${PREFIX}${region === undefined ? "" : `?region=${region}`}`;
}

export interface BucketPlan {
  readonly url: string;
  readonly name: string;
  readonly exists: boolean;
  /** What is to be known about one that exists. */
  readonly note?: string | undefined;
  readonly live: Release | undefined;
}

/** Whether the bucket is created; rejects where the running service had it, and it is gone. */
export function bucketAction({ url, name, exists, note, live }: BucketPlan): ResourceAction {
  if (!exists && storageOf(live) === url)
    throw new DeployError("preflight", `The bucket "${name}" of the running service no longer exists`, {
      detail: "Its jobs were in it; a new one would be empty",
      outcome: "Nothing was changed",
      fix: "Restore the bucket, or choose another with --storage and --accept-data-loss",
    });
  const about =
    exists && note !== undefined
      ? `Bucket for jobs, ${note}`
      : "Bucket for jobs, private; svc deploy down keeps it";
  return resourceAction("bucket", name, exists, about);
}
