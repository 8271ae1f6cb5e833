import { isDeepStrictEqual } from "node:util";
import type { ResourceAction } from "../../../core/models/deployment.ts";
import { STORAGE_URL } from "../../../deploy/config.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { DeployTarget, Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { CREATE } from "../../../deploy/storage.ts";
import { resourceAction } from "../cloud/actions.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { bucketAction, bucketName, bucketUrl } from "../cloud/job-bucket.ts";
import type { AwsContext } from "./aws-context.ts";
import { ensureRole, readInline, type WantedRole } from "./roles.ts";
import { sendS3 } from "./s3.ts";

/** Calls that a deployment with a bucket makes. */
export const BUCKET_ACTIONS = ["s3:ListBucket", "s3:CreateBucket", "s3:PutBucketPublicAccessBlock"] as const;

const POLICY = "bucket";

/** The bucket that svc creates for this service. */
export function storageUrl({ target, identity }: AwsContext): string {
  const name = bucketName(target.serviceName, identity.account, target.region);
  return bucketUrl("s3", name, target.region);
}

/** Whether a role of the account gives access to it: to S3, not to what only has its interface. */
export function isS3(url: string): boolean {
  return url.startsWith("s3:") && !new URL(url).searchParams.has("endpoint");
}

/** Whether this deployment is asked to prepare a bucket. */
export function wantsBucket({ storage }: DeployTarget<unknown>): boolean {
  return storage !== undefined && (storage === CREATE || isS3(storage));
}

/** The objects of the bucket that this deployment is asked to prepare, as policies name them. */
export function bucketObjects(context: AwsContext): string {
  const { storage = CREATE } = context.target;
  return objectsOf(context, storage === CREATE ? storageUrl(context) : storage);
}

/** Whether the role that a service runs with can stay: only svc's own gets access to a bucket that is new to it. */
export function keepsRole(spec: Pick<ReleaseSpec, "env">, live: Readonly<Record<string, string>>): boolean {
  return !usesBucket(spec) || spec.env[STORAGE_URL] === live[STORAGE_URL];
}

/** Whether a release has its store in a bucket that a role gives access to. */
export function usesBucket({ env }: Pick<ReleaseSpec, "env">): boolean {
  const url = env[STORAGE_URL];
  return url !== undefined && isS3(url);
}

/**
 * What is created or allowed for the bucket of a release, if it is one of S3; `role` is what the service runs with,
 * undefined if it is not one that svc creates.
 */
export async function planStorage(
  context: AwsContext,
  role: WantedRole | undefined,
  spec: ReleaseSpec,
  live: Release | undefined,
): Promise<ResourceAction[]> {
  const url = spec.env[STORAGE_URL];
  if (url === undefined || !isS3(url)) return [];
  const { name } = placeOf(context, url);
  const found = await findBucket(context, url);
  const note = found === "hidden" ? "of another account: its policy must let the role in" : undefined;
  const bucket = bucketAction({ url, name, exists: found !== undefined, note, live });
  if (role === undefined) return [bucket];
  const allowed = await readInline(context, role.name, POLICY);
  return [
    bucket,
    resourceAction(
      "role",
      `${role.name}/${POLICY}`,
      isDeepStrictEqual(allowed, policyFor(context, url)),
      "Policy: objects of this bucket only",
    ),
  ];
}

/** Creates the bucket unless it exists, and lets the role use it. */
export async function ensureStorage(
  context: AwsContext,
  role: WantedRole | undefined,
  url: string,
): Promise<void> {
  if ((await findBucket(context, url)) === undefined) await createBucket(context, url);
  else if (await isHalfMade(context, role, url)) await blockPublicAccess(context, url);
  if (role !== undefined)
    await ensureRole(context, { ...role, inline: { name: POLICY, document: policyFor(context, url) } });
}

/** Whether a run, here or elsewhere, was killed after it had created the bucket: the role gets its policy last. */
async function isHalfMade(context: AwsContext, role: WantedRole | undefined, url: string): Promise<boolean> {
  if (context.tools.recall("storage.create")) return true;
  if (url !== storageUrl(context)) return false;
  if (role === undefined) return true;
  return !isDeepStrictEqual(await readInline(context, role.name, POLICY), policyFor(context, url));
}

async function createBucket(context: AwsContext, url: string): Promise<void> {
  const { name: bucket, region } = placeOf(context, url);
  const body =
    region === "us-east-1"
      ? {}
      : {
          body: `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><LocationConstraint>${region}</LocationConstraint></CreateBucketConfiguration>`,
        };
  await context.tools.journal({ step: "storage.create", data: { bucket } }, async () => {
    try {
      await sendS3(context, { method: "PUT", bucket, region, ...body });
    } catch (error) {
      if (!isCloudError(error) || error.status !== 409) throw error;
      // An earlier attempt, whose response was lost, or somebody else, who would get the jobs.
      if (error.code !== "BucketAlreadyOwnedByYou") throw foreign(bucket);
    }
  });
  await blockPublicAccess(context, url);
}

async function blockPublicAccess(context: AwsContext, url: string): Promise<void> {
  const { name: bucket, region } = placeOf(context, url);
  const settings = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];
  const body = `<PublicAccessBlockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${settings.map((one) => `<${one}>true</${one}>`).join("")}</PublicAccessBlockConfiguration>`;
  await context.tools.journal({ step: "storage.block", data: { bucket } }, () =>
    sendS3(context, { method: "PUT", bucket, region, part: "publicAccessBlock", body }),
  );
}

/** Undefined if there is none; "hidden" if another account has it, which only a bucket that was named may have. */
async function findBucket(context: AwsContext, url: string): Promise<"own" | "hidden" | undefined> {
  const { name: bucket, region } = placeOf(context, url);
  const headers = { "x-amz-expected-bucket-owner": context.identity.account };
  try {
    await sendS3(context, { method: "HEAD", bucket, region, headers });
    return "own";
  } catch (error) {
    if (!isCloudError(error)) throw error;
    if (error.status === 404) return undefined;
    if (error.status === 301 || error.status === 400)
      throw new DeployError("preflight", `The bucket "${bucket}" is not in ${region}`, {
        fix: `Name its region: --storage "s3://${bucket}/prefix?region=…"`,
      });
    if (error.status !== 403) throw error;
    if (url !== storageUrl(context)) return "hidden";
    throw foreign(bucket);
  }
}

/** A missing object is only reported as missing to those who may list: otherwise S3 says that access is denied. */
function policyFor(context: AwsContext, url: string): object {
  const arn = `arn:${context.identity.partition}:s3:::${placeOf(context, url).name}`;
  return {
    Version: "2012-10-17",
    Statement: [
      {
        Effect: "Allow",
        Action: ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
        Resource: objectsOf(context, url),
      },
      { Effect: "Allow", Action: "s3:ListBucket", Resource: arn },
    ],
  };
}

function objectsOf(context: AwsContext, url: string): string {
  const { name, prefix } = placeOf(context, url);
  return `arn:${context.identity.partition}:s3:::${name}/${prefix === "" ? "" : `${prefix}/`}*`;
}

function placeOf({ target }: AwsContext, text: string) {
  const url = new URL(text);
  return {
    name: url.hostname,
    prefix: decodeURIComponent(url.pathname).replace(/^\/+|\/+$/g, ""),
    region: url.searchParams.get("region") ?? target.region,
  };
}

function foreign(name: string): DeployError {
  return new DeployError("failed", `The bucket "${name}" belongs to somebody else`, {
    detail:
      "Names of buckets are global, and another account has this one, or it cannot be read with these credentials",
    outcome: "Nothing was stored in it",
    fix: 'Name a bucket of yours: --storage "s3://bucket/prefix?region=…"',
  });
}
