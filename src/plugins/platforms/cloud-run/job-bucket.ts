import type { ResourceAction } from "../../../core/models/deployment.ts";
import { STORAGE_URL } from "../../../deploy/config.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { resourceAction } from "../cloud/actions.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { bucketAction, bucketName, bucketUrl } from "../cloud/job-bucket.ts";
import { readProjectNumber } from "./apis.ts";
import { type Bucket, createBucket, findBucket, isCloudStorage } from "./buckets.ts";
import type { Context } from "./context.ts";
import { ensureGrant, type Grant, isGranted } from "./policy.ts";
import { runtimeAccount } from "./secrets.ts";

/** Reads, writes, lists and removes objects. */
const ROLE = "roles/storage.objectUser";

/** The bucket that svc creates for this service. */
export function storageUrl({ target, project }: Context): string {
  return bucketUrl("gs", bucketName(target.serviceName, project, target.region));
}

/** What is created or granted for the bucket of a release, if it is one of Cloud Storage. */
export async function planStorage(
  context: Context,
  spec: ReleaseSpec,
  live: Release | undefined,
): Promise<ResourceAction[]> {
  const url = spec.env[STORAGE_URL];
  if (url === undefined || !isCloudStorage(url)) return [];
  const name = nameOf(url);
  const found = await readBucket(context, url);
  const grant = await grantOf(context, name);
  const member = grant?.member.replace("serviceAccount:", "") ?? "the service's account";
  const isHeld =
    found === "hidden" || (found !== undefined && grant !== undefined && (await holds(context, grant)));
  const exists = found !== undefined;
  return [
    bucketAction({ url, name, exists, live, note: exists ? describe(context, found) : undefined }),
    resourceAction("role", ROLE, isHeld, `For ${member}, on this bucket only`),
  ];
}

/** Creates the bucket unless it exists, and lets the service's account use it. */
export async function ensureStorage(context: Context, url: string): Promise<void> {
  const name = nameOf(url);
  if ((await readBucket(context, url)) === undefined) {
    await createBucket(context, name, { step: "storage.create" });
    // Created between the check and the call by somebody else, who would get the jobs.
    if ((await readBucket(context, url)) === undefined) throw foreign(name);
  }
  const grant = await grantOf(context, name);
  try {
    if (grant !== undefined) return void (await ensureGrant(context, grant));
  } catch (error) {
    if (!isCloudError(error) || error.status !== 403) throw error;
  }
  context.tools.report(
    `access to the bucket could not be granted here: the service's account needs ${ROLE} on "${name}"`,
  );
}

/** Undefined if there is none; "hidden" if the caller may not read it, which only a bucket that was named may be. */
async function readBucket(context: Context, url: string): Promise<Bucket | "hidden" | undefined> {
  const name = nameOf(url);
  const isOurs = url === storageUrl(context);
  try {
    const found = await findBucket(context, name);
    if (found === undefined || !isOurs) return found;
    if (found.projectNumber === (await readProjectNumber(context))) return found;
  } catch (error) {
    if (!isCloudError(error) || error.status !== 403) throw error;
    if (!isOurs) return "hidden";
  }
  throw foreign(name);
}

async function holds(context: Context, grant: Grant): Promise<boolean> {
  try {
    return await isGranted(context, grant);
  } catch (error) {
    if (isCloudError(error) && error.status === 403) return true;
    throw error;
  }
}

async function grantOf(context: Context, name: string): Promise<Grant | undefined> {
  const account = await runtimeAccount(context);
  if (account === undefined) return undefined;
  return {
    api: "storage",
    resource: `/storage/v1/b/${name}`,
    role: ROLE,
    member: `serviceAccount:${account}`,
    step: "storage.grant",
  };
}

function describe({ target }: Context, found: Bucket | "hidden"): string | undefined {
  if (found === "hidden") return `not readable here: the service's account needs ${ROLE} on it`;
  const place = found.location?.toLowerCase();
  const notes = [
    place === undefined || place === target.region ? undefined : `in ${place}: each write takes longer`,
    found.iamConfiguration?.publicAccessPrevention === "enforced" ? undefined : "which can be made public",
  ].filter(Boolean);
  return notes.length === 0 ? undefined : notes.join(", ");
}

function nameOf(url: string): string {
  return new URL(url).hostname;
}

function foreign(name: string): DeployError {
  return new DeployError("failed", `The bucket "${name}" belongs to somebody else`, {
    detail:
      "Names of buckets are global, and another project has this one, or it cannot be read with these credentials",
    outcome: "Nothing was stored in it",
    fix: "Name a bucket of yours: --storage gs://bucket/prefix",
  });
}
