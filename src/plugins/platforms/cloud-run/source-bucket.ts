import { DeployError } from "../../../deploy/errors.ts";
import type { BuildContext } from "../../../deploy/platform.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { readProjectNumber } from "./apis.ts";
import { createBucket, findBucket } from "./buckets.ts";
import type { Context } from "./context.ts";

/** An uploaded archive, by exact version. */
export interface StoredObject {
  readonly bucket: string;
  readonly object: string;
  readonly generation: string;
}

/** Uploads an archive under the hash of its files, unless it exists. */
export async function uploadSource(
  context: Context,
  { hash, pack }: Pick<BuildContext, "hash" | "pack">,
): Promise<StoredObject> {
  const bucket = await ensureBucket(context);
  const google = await context.google();
  const object = `services/${context.target.serviceName}/${hash}.tar.gz`;
  const find = () =>
    google.find<{ generation?: string }>(
      "storage",
      `/storage/v1/b/${bucket}/o/${encodeURIComponent(object)}`,
    );
  const stored =
    (await find()) ??
    (await context.tools.journal({ step: "build.upload", data: { bucket, object } }, () =>
      google.send<{ generation?: string }>("storage", "POST", `/upload/storage/v1/b/${bucket}/o`, {
        query: { uploadType: "media", name: object },
        stream: pack,
        headers: { "content-type": "application/gzip" },
        idempotent: true,
      }),
    ));
  return { bucket, object, generation: stored.generation ?? "" };
}

async function ensureBucket(context: Context): Promise<string> {
  const bucket = `run-sources-${context.project}-${context.target.region}`;
  const present = await readOwnBucket(context, bucket);
  if (present) return bucket;
  const lifecycle = { rule: [{ action: { type: "Delete" }, condition: { age: 30 } }] };
  await createBucket(context, bucket, { step: "build.bucket", lifecycle });
  // Created between the check and the call: by another run of svc, or by somebody who guessed the name.
  if (await readOwnBucket(context, bucket)) return bucket;
  throw foreign(bucket);
}

/** Bucket names are global: a bucket of this name may belong to somebody who is waiting for our sources. */
async function readOwnBucket(context: Context, bucket: string): Promise<boolean> {
  try {
    const found = await findBucket(context, bucket);
    if (found === undefined) return false;
    if (found.projectNumber === (await readProjectNumber(context))) return true;
  } catch (error) {
    if (!isCloudError(error) || error.status !== 403) throw error;
  }
  throw foreign(bucket);
}

function foreign(bucket: string): DeployError {
  return new DeployError("failed", `The bucket "${bucket}" belongs to another project`, {
    detail: "Somebody else owns the bucket name that this project's sources would be uploaded to",
    outcome: "Nothing was uploaded",
    fix: "Build on this machine instead: omit --use-cloud-build",
  });
}
