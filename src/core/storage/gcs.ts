import { createHash } from "node:crypto";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import type { Environment } from "./aws-credentials.ts";
import {
  type Call,
  type CallLimits,
  type CallTools,
  converse,
  type Response,
  SHARED_NAMES,
  type Verdict,
} from "./call.ts";
import { checkEndpoint } from "./endpoint.ts";
import { findGoogleToken, type GoogleToken } from "./google-token.ts";
import { objectDriver } from "./object-driver.ts";
import { Renewed } from "./renewed.ts";
import { escapeUri } from "./sign-v4.ts";
import type { CreatingStorageDriver } from "./storage-driver.ts";

export interface GcsOptions extends CallTools, CallLimits {
  readonly bucket: string;
  /** Folder in the bucket. @default the whole bucket */
  readonly prefix?: string | undefined;
  /** Another address of the JSON API. @default https://storage.googleapis.com */
  readonly endpoint?: string | undefined;
  /** @default what the environment has: a key file, a login, the service account of the machine */
  readonly token?: (() => Promise<GoogleToken>) | undefined;
  /** @default process.env */
  readonly env?: Environment | undefined;
}

const NAMES: NamesOf<GcsOptions> = {
  ...SHARED_NAMES,
  ...{ bucket: true, prefix: true, endpoint: true, token: true, env: true },
};

/**
 * A driver for a bucket of Google Cloud Storage, through its JSON API. unstorage has none.
 *
 * @example
 * gcsDriver({ bucket: "agents", prefix: "production" })
 */
export function gcsDriver(options: GcsOptions): CreatingStorageDriver {
  refuseUnknown(options, NAMES, "gcsDriver");
  const bucket = new GcsBucket(options);
  return objectDriver(
    { name: "agent-control-gcs", prefix: options.prefix },
    {
      has: async (name) => (await bucket.find(name, { fields: "name" })) !== undefined,
      read: async (name) => (await bucket.find(name, { alt: "media" }))?.body,
      put: (name, value) => bucket.upload(name, value),
      create: async (name, value) =>
        (await bucket.upload(name, value, { ifGenerationMatch: "0" })).status !== 412,
      remove: (name) => bucket.call({ method: "DELETE", path: bucket.objectPath(name), absent: true }),
      list: (prefix) => bucket.list(prefix),
    },
  );
}

interface GcsRequest {
  readonly method: Call["method"];
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** The object may be missing. */
  readonly absent?: boolean;
}

class GcsBucket {
  readonly #options: GcsOptions;
  readonly #endpoint: string;
  readonly #token: Renewed<GoogleToken>;

  constructor(options: GcsOptions) {
    const { endpoint, token, env = process.env, now = () => new Date() } = options;
    this.#options = options;
    this.#endpoint = checkEndpoint(endpoint ?? "https://storage.googleapis.com");
    this.#token = new Renewed(token, () => findGoogleToken(env, options), now);
  }

  /** An object, or what the query selects of it; undefined if there is none. */
  async find(name: string, query: Readonly<Record<string, string>>): Promise<Response | undefined> {
    const found = await this.call({ method: "GET", path: this.objectPath(name), query, absent: true });
    return found.status === 404 ? undefined : found;
  }

  objectPath(path: string): string {
    return `/storage/v1/b/${this.#options.bucket}/o/${escapeUri(path)}`;
  }

  /** Stores an object together with its checksum: what arrives must have it. */
  upload(name: string, value: Uint8Array, query: Readonly<Record<string, string>> = {}): Promise<Response> {
    const boundary = `svc-${createHash("sha256").update(value).digest("hex")}`;
    const resource = { name, md5Hash: createHash("md5").update(value).digest("base64") };
    const head = `--${boundary}\r\ncontent-type: application/json; charset=UTF-8\r\n\r\n${JSON.stringify(resource)}\r\n--${boundary}\r\ncontent-type: application/octet-stream\r\n\r\n`;
    return this.call({
      method: "POST",
      path: `/upload/storage/v1/b/${this.#options.bucket}/o`,
      query: { uploadType: "multipart", fields: "name,generation", ...query },
      headers: { "content-type": `multipart/related; boundary=${boundary}` },
      body: Buffer.concat([Buffer.from(head), value, Buffer.from(`\r\n--${boundary}--\r\n`)]),
    });
  }

  /** Names that begin with a prefix, of all pages. */
  async list(prefix: string): Promise<string[]> {
    const names: string[] = [];
    for (let pageToken: string | undefined; ; ) {
      const query = { prefix, fields: "items(name),nextPageToken", maxResults: "1000" };
      const { body } = await this.call({
        method: "GET",
        path: `/storage/v1/b/${this.#options.bucket}/o`,
        query: pageToken === undefined ? query : { ...query, pageToken },
      });
      const page = JSON.parse(body.toString()) as { items?: { name: string }[]; nextPageToken?: string };
      // A page may be empty and have a next one.
      for (const { name } of page.items ?? []) names.push(name);
      pageToken = page.nextPageToken;
      if (pageToken === undefined) return names;
    }
  }

  call(request: GcsRequest): Promise<Response> {
    const { method, path, query = {}, headers, body } = request;
    const search = new URLSearchParams(query).toString();
    const url = `${this.#endpoint}${path}${search && `?${search}`}`;
    return converse({
      options: this.#options,
      name: `The bucket "${this.#options.bucket}"`,
      credentials: this.#token,
      prepare: ({ token }) => ({
        method,
        url,
        headers: { ...headers, authorization: `Bearer ${token}` },
        body,
      }),
      judge: (response, { token }) => judge(response, request, token),
    });
  }
}

function judge(response: Response, request: GcsRequest, secret: string): Verdict | undefined {
  const { status, body } = response;
  if (status < 300) return judgeContent(response, request);
  const text = body.toString();
  const { message, reason } = readError(text);
  const says = `${[status, reason].filter(Boolean).join(" ")}${message && `: ${message.replaceAll(secret, "…")}`}`;
  if (status === 404) {
    if (request.absent && !/bucket does not exist/.test(text)) return undefined;
    return { reason: "gone", says };
  }
  if (status === 412 && request.query?.ifGenerationMatch !== undefined) return undefined;
  if (status === 401) return { reason: "denied", says, renew: true };
  if (status === 429 || /^(rateLimitExceeded|userRateLimitExceeded)$/.test(reason))
    return { reason: "throttled", says };
  if (reason === "quotaExceeded" || status === 507) return { reason: "full", says };
  // 400 with this: what arrived is not what was sent.
  if (status >= 500 || status === 408 || (status === 400 && /MD5|multipart/i.test(message)))
    return { reason: "unavailable", says };
  return { reason: "denied", says };
}

function judgeContent({ body, headers }: Response, { query }: GcsRequest): Verdict | undefined {
  if (query?.alt !== "media") {
    if (body.length === 0) return undefined;
    try {
      JSON.parse(body.toString());
      return undefined;
    } catch {
      return { reason: "unavailable", says: "its response is not JSON" };
    }
  }
  const md5 = /md5=([\w+/=]+)/.exec(headers.get("x-goog-hash") ?? "")?.[1];
  if (md5 === undefined || md5 === createHash("md5").update(body).digest("base64")) return undefined;
  return { reason: "damaged", says: "the checksum of an object is another one", again: true };
}

function readError(text: string): { message: string; reason: string } {
  try {
    const { error } = JSON.parse(text) as {
      error?: { message?: string; errors?: readonly { reason?: string }[] };
    };
    return { message: (error?.message ?? "").slice(0, 300), reason: error?.errors?.[0]?.reason ?? "" };
  } catch {
    return { message: text.slice(0, 300), reason: "" };
  }
}
