import { checkSignature } from "../../storage/s3-server.ts";
import type { Answer, Received } from "../http-server.ts";
import type { AwsState } from "./state.ts";

const KEY = { id: "AKIDEXAMPLE", secret: "lab-secret-access-key" };
const BLOCKS = ["BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"];

/** Name of a call about a bucket; undefined for calls to other services. */
export function s3Operation({ method, path, query }: Received): string | undefined {
  if (path === "/") return undefined;
  if (method === "HEAD") return "HeadBucket";
  return query.has("publicAccessBlock") ? "PutPublicAccessBlock" : "CreateBucket";
}

/** Buckets of S3 as such, with addresses by path; what is in them is elsewhere. */
export function s3Api(state: AwsState, operation: string, request: Received): Answer {
  const refusal = checkSignature(request, { keys: new Map([[KEY.id, KEY]]), region: state.region });
  if (refusal) return refusal;
  const name = request.path.slice(1);
  const text = request.raw.toString("utf8");
  const bucket = state.buckets.get(name);
  if (operation === "CreateBucket") {
    if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(name)) return failure(400, "InvalidBucketName");
    const wanted = /<LocationConstraint>([^<]+)</.exec(text)?.[1];
    if (wanted !== (state.region === "us-east-1" ? undefined : state.region))
      return failure(400, "InvalidLocationConstraint");
    if (bucket)
      return failure(409, bucket.owner === state.account ? "BucketAlreadyOwnedByYou" : "BucketAlreadyExists");
    state.buckets.set(name, { owner: state.account, blocks: [] });
    return { status: 200, headers: { location: `/${name}` } };
  }
  if (!bucket) return failure(404, "NoSuchBucket");
  const owner = request.headers["x-amz-expected-bucket-owner"];
  if (owner !== undefined && bucket.owner !== owner) return failure(403, "AccessDenied");
  // The owner of a name that others expect can let everybody read.
  if (operation === "HeadBucket") return { status: 200, headers: { "x-amz-bucket-region": state.region } };
  if (bucket.owner !== state.account) return failure(403, "AccessDenied");
  if (request.headers["content-md5"] === undefined) return failure(400, "InvalidRequest");
  bucket.blocks = BLOCKS.filter((block) => text.includes(`<${block}>true</${block}>`));
  return { status: 200, headers: { "x-amz-request-id": "r" } };
}

function failure(status: number, code: string): Answer {
  return {
    status,
    headers: { "content-type": "application/xml" },
    body: `<?xml version="1.0"?><Error><Code>${code}</Code><Message>${code}</Message></Error>`,
  };
}
