import { createHash } from "node:crypto";
import { countOf } from "../base/count-of.ts";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { type Environment, findAwsCredentials } from "./aws-credentials.ts";
import {
  type Call,
  type CallLimits,
  type CallTools,
  converse,
  type Response,
  SHARED_NAMES,
  type Verdict,
} from "./call.ts";
import { type ObjectCalls, objectDriver } from "./object-driver.ts";
import { Renewed } from "./renewed.ts";
import { type AwsCredentials, sha256Hex, signV4, urlOf } from "./sign-v4.ts";
import type { CreatingStorageDriver, OwnStorageDriver } from "./storage-driver.ts";
import { StorageFailure } from "./storage-failure.ts";
import { elementOf, sentenceOf, unescapeXml } from "./xml.ts";

/** Where an object has the SHA-256 of its content: what is read must be what was written. */
const HASH = "x-amz-meta-sha256";

export interface S3Options extends CallTools, CallLimits {
  readonly bucket: string;
  /** Folder in the bucket. @default the whole bucket */
  readonly prefix?: string | undefined;
  /** @default the variables AWS_REGION and AWS_DEFAULT_REGION; "auto" for R2; "us-east-1" with another endpoint */
  readonly region?: string | undefined;
  /** URL of an S3-compatible service: R2, Spaces, MinIO, and others. @default AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, else AWS */
  readonly endpoint?: string | undefined;
  /** The service refuses to overwrite with `If-None-Match`: AWS, R2 and new versions of MinIO do. @default true for AWS and R2 */
  readonly conditional?: boolean | undefined;
  /** @default what the environment has: variables, a profile, the role of the container or instance */
  readonly credentials?: AwsCredentials | (() => Promise<AwsCredentials>) | undefined;
  /** @default process.env */
  readonly env?: Environment | undefined;
}

const NAMES: NamesOf<S3Options> = {
  ...SHARED_NAMES,
  ...{
    bucket: true,
    prefix: true,
    region: true,
    endpoint: true,
    conditional: true,
    credentials: true,
    env: true,
  },
};

/**
 * A driver for a bucket of S3 or of a service with the same interface. That of unstorage lists only the first 1000 keys,
 * does not repeat a request, has no temporary credentials, and puts addresses in its errors.
 *
 * @example
 * s3Driver({ bucket: "agents", prefix: "production", region: "eu-central-1" })
 */
export function s3Driver(options: S3Options): OwnStorageDriver | CreatingStorageDriver {
  refuseUnknown(options, NAMES, "s3Driver");
  if (options.conditional !== undefined && typeof options.conditional !== "boolean")
    throw new TypeError("s3Driver: conditional must be true or false");
  const bucket = new S3Bucket(options);
  const place = { name: "agent-control-s3", prefix: options.prefix };
  const calls: ObjectCalls = {
    has: async (path) => (await bucket.call({ method: "HEAD", path, absent: true })).status !== 404,
    async read(path) {
      const { status, body } = await bucket.call({ method: "GET", path, absent: true });
      return status === 404 ? undefined : body;
    },
    put: (path, body) => bucket.call({ method: "PUT", path, body }),
    remove: (path) => bucket.call({ method: "DELETE", path, absent: true }),
    list: (prefix) => bucket.list(prefix),
  };
  if (!bucket.conditional) return objectDriver(place, calls);
  return objectDriver(place, {
    ...calls,
    async create(path, body) {
      const headers = { "if-none-match": "*" };
      return (await bucket.call({ method: "PUT", path, body, headers })).status !== 412;
    },
  });
}

interface S3Request {
  readonly method: Call["method"];
  /** Path of the object; "" for the bucket. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The object may be missing. */
  readonly absent?: boolean;
}

class S3Bucket {
  readonly conditional: boolean;
  readonly #options: S3Options;
  readonly #region: string;
  readonly #base: string;
  readonly #credentials: Renewed<AwsCredentials>;
  readonly #now: () => Date;

  constructor(options: S3Options) {
    const { bucket, env = process.env, now = () => new Date(), credentials } = options;
    const endpoint = options.endpoint ?? (env.AWS_ENDPOINT_URL_S3 || env.AWS_ENDPOINT_URL || undefined);
    const isR2 = endpoint !== undefined && new URL(endpoint).hostname.endsWith(".r2.cloudflarestorage.com");
    const region = options.region ?? (env.AWS_REGION || env.AWS_DEFAULT_REGION || undefined);
    if (region === undefined && endpoint === undefined)
      throw new TypeError(`The region of the bucket "${bucket}" is unknown: set region, or AWS_REGION`);
    this.#options = options;
    this.#region = region ?? (isR2 ? "auto" : "us-east-1");
    this.#now = now;
    this.conditional = options.conditional ?? (endpoint === undefined || isR2);
    const aws = `s3.${this.#region}.amazonaws.com`;
    if (endpoint !== undefined) this.#base = `${endpoint.replace(/\/+$/, "")}/${bucket}`;
    // A certificate for all buckets does not cover names with dots.
    else this.#base = bucket.includes(".") ? `https://${aws}/${bucket}` : `https://${bucket}.${aws}`;
    this.#credentials = new Renewed(credentials, () => findAwsCredentials(env, options), now);
  }

  call(request: S3Request): Promise<Response> {
    return converse({
      options: this.#options,
      name: `The bucket "${this.#options.bucket}"`,
      credentials: this.#credentials,
      prepare: (secrets) => this.#sign(request, secrets),
      judge: (response, secrets) => judge(response, request, { secrets, now: this.#now() }),
    });
  }

  /** Paths that begin with a prefix, of all pages. */
  async list(prefix: string): Promise<string[]> {
    const paths: string[] = [];
    for (let token: string | undefined; ; ) {
      const { body } = await this.call({
        method: "GET",
        path: "",
        query: {
          ...{ "list-type": "2", "encoding-type": "url", prefix },
          ...(token === undefined ? {} : { "continuation-token": token }),
        },
      });
      const xml = body.toString();
      for (const [, key] of xml.matchAll(/<Contents>.*?<Key>([^<]*)<\/Key>/gs))
        paths.push(decodeURIComponent(unescapeXml(key!).replaceAll("+", "%20")));
      if (elementOf(xml, "IsTruncated") !== "true") return paths;
      token = elementOf(xml, "NextContinuationToken");
      if (!token) throw malformed(this.#options.bucket);
    }
  }

  #sign({ method, path, query = {}, headers = {}, body }: S3Request, credentials: AwsCredentials): Call {
    const url = urlOf(`${this.#base}/`, path, query);
    const bodyHash = sha256Hex(body ?? "");
    // What arrives must have both checksums, or it is not stored.
    const checked = body && {
      "content-md5": createHash("md5").update(body).digest("base64"),
      "content-type": "application/octet-stream",
      [HASH]: bodyHash,
    };
    const signed = signV4(
      { method, url, headers: { ...headers, ...checked }, bodyHash },
      { credentials, region: this.#region, now: this.#now() },
    );
    return { method, url: url.href, headers: signed, body };
  }
}

interface Circumstances {
  readonly secrets: AwsCredentials;
  readonly now: Date;
}

const CREDENTIALS_OLD =
  /^(ExpiredToken|InvalidToken|TokenRefreshRequired|InvalidAccessKeyId|ExpiredTokenException)$/;
const THROTTLED = /^(SlowDown|TooManyRequests|Throttling|RequestLimitExceeded|ServiceUnavailable)/;
const FULL = /^(QuotaExceeded|XMinioStorageFull|InsufficientStorage)/;
const UPLOAD_BROKEN =
  /^(BadDigest|IncompleteBody|RequestTimeout|XAmzContentSHA256Mismatch|OperationAborted)$/;

function judge(response: Response, request: S3Request, circumstances: Circumstances): Verdict | undefined {
  const { status, headers, body } = response;
  if (status < 300) return judgeContent(response, request);
  const xml = body.toString();
  const code = elementOf(xml, "Code") ?? "";
  if (status === 404 && request.absent && code !== "NoSuchBucket") return undefined;
  if (status === 412 && request.headers?.["if-none-match"]) return undefined;
  const says = `${[status, code].filter(Boolean).join(" ")}${sentenceOf(xml, Object.values(circumstances.secrets))}`;
  // Two creations of one object at the same moment.
  if (code === "ConditionalRequestConflict") return { reason: "unavailable", says };
  if (code === "NoSuchBucket" || status === 404) return { reason: "gone", says };
  if (code === "RequestTimeTooSkewed")
    return { reason: "clock", says: `${says}${skewOf(headers, circumstances.now)}` };
  if (FULL.test(code) || status === 507) return { reason: "full", says };
  if (CREDENTIALS_OLD.test(code)) return { reason: "denied", says, renew: true };
  if (status === 429 || THROTTLED.test(code)) return { reason: "throttled", says };
  if (status >= 500 || status === 408 || UPLOAD_BROKEN.test(code)) {
    if (status === 501)
      return {
        reason: "denied",
        says,
        detail: "This service lacks a feature of S3 that is needed here.",
        again: false,
      };
    return { reason: "unavailable", says };
  }
  const region = headers.get("x-amz-bucket-region") ?? elementOf(xml, "Region");
  if (region && (status === 301 || status === 307 || status === 400))
    return { reason: "denied", says, detail: `The bucket is in the region ${region}: set this region.` };
  return { reason: "denied", says };
}

function judgeContent({ body, headers }: Response, { method, path }: S3Request): Verdict | undefined {
  if (method !== "GET") return undefined;
  if (path === "")
    return body.includes("</ListBucketResult>")
      ? undefined
      : { reason: "unavailable", says: "its list is incomplete" };
  const hash = headers.get(HASH);
  if (hash === null || hash === sha256Hex(body)) return undefined;
  return { reason: "damaged", says: `the checksum of ${path} is another one`, again: true };
}

function skewOf(headers: Headers, now: Date): string {
  const minutes = Math.round((now.getTime() - Date.parse(headers.get("date") ?? "")) / 60_000);
  if (!Number.isFinite(minutes)) return "";
  return `; this machine is ${countOf(Math.abs(minutes), "minute")} ${minutes < 0 ? "behind" : "ahead"}`;
}

function malformed(bucket: string): StorageFailure {
  return new StorageFailure(`The bucket "${bucket}" returned an incomplete list`, {
    reason: "unavailable",
    detail: "Check the endpoint: it must provide ListObjectsV2.",
  });
}
