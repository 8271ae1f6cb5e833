import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import type { Answer, Received } from "../platforms/http-server.ts";
import { Buckets, type ObjectServer, type Seen, serveObjects } from "./object-server.ts";

/** A key pair that the emulator knows. */
export interface S3Key {
  readonly id: string;
  readonly secret: string;
  readonly token?: string;
  /** Milliseconds since 1970. */
  readonly expires?: number;
}

export interface S3Server extends ObjectServer {
  readonly keys: Map<string, S3Key>;
  readonly region: string;
}

const SKEW = 15 * 60_000;
const META = /^x-amz-meta-/;

/** Emulates S3: path-style addresses, signatures of version 4, ListObjectsV2, `If-None-Match`. Strict. */
export async function startS3(
  names: readonly string[],
  {
    key = { id: "AKIDTEST", secret: "s3-test-secret" },
    region = "eu-test-1",
  }: { key?: S3Key; region?: string } = {},
): Promise<S3Server> {
  const buckets = new Buckets(names);
  const keys = new Map([[key.id, key]]);
  const server = await serveObjects(
    buckets,
    (request) => answer(buckets, request, { keys, region }),
    (request) => describeRequest(request),
  );
  return { ...server, keys, region };
}

/** Keys that sign, and the region that they sign for. */
export interface KnownKeys {
  readonly keys: ReadonlyMap<string, S3Key>;
  readonly region: string;
}

function describeRequest({ method, path, query, headers }: Received): Pick<Seen, "kind" | "name"> {
  const { name } = placeOf(path);
  if (method === "DELETE") return { kind: "remove", name };
  if (method === "PUT") return { kind: headers["if-none-match"] ? "create" : "write", name };
  return name === "" ? { kind: "list", name: query.get("prefix") ?? "" } : { kind: "read", name };
}

function answer(buckets: Buckets, request: Received, known: KnownKeys): Answer {
  const refusal = checkSignature(request, known);
  if (refusal) return refusal;
  const { method, path, query, headers, raw } = request;
  const { bucket, name } = placeOf(path);
  const objects = buckets.objects.get(bucket);
  if (!objects) return error(404, "NoSuchBucket", "The specified bucket does not exist");
  const { kind } = describeRequest(request);
  if (buckets.denied.has(kind)) return error(403, "AccessDenied", "Access Denied");
  if (name === "")
    return method === "GET" ? list(buckets, bucket, query) : error(405, "MethodNotAllowed", method);
  if ([...query.keys()].length > 0) buckets.violations.push(`${method} ${path}: query ${query}`);
  const found = objects.get(name);
  if (method === "GET" || method === "HEAD") {
    if (!found)
      return method === "HEAD"
        ? { status: 404 }
        : error(404, "NoSuchKey", "The specified key does not exist.");
    const answerHeaders = { "content-type": "application/octet-stream", ...found.headers };
    if (method === "HEAD")
      return { status: 200, headers: { ...answerHeaders, "content-length": String(found.body.length) } };
    return { status: 200, headers: answerHeaders, body: found.body };
  }
  if (method === "DELETE") {
    objects.delete(name);
    return { status: 204 };
  }
  if (method !== "PUT") return error(405, "MethodNotAllowed", method);
  const condition = headers["if-none-match"];
  if (condition !== undefined && condition !== "*") return error(501, "NotImplemented", "If-None-Match");
  if (headers["content-length"] === undefined) return error(411, "MissingContentLength", "length");
  const md5 = createHash("md5").update(raw).digest("base64");
  if (headers["content-md5"] === undefined) buckets.violations.push(`${path}: no checksum`);
  else if (headers["content-md5"] !== md5)
    return error(400, "BadDigest", "The Content-MD5 you specified did not match what we received.");
  if (buckets.full)
    return error(507, "XMinioStorageFull", "Storage backend has reached its minimum free drive threshold.");
  if (condition !== undefined && found)
    return error(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold");
  const kept = Object.entries(headers).filter(([header]) => META.test(header));
  buckets.put(bucket, name, { body: raw, headers: Object.fromEntries(kept) });
  return { status: 200, headers: { etag: `"${Buffer.from(md5, "base64").toString("hex")}"` } };
}

function list(buckets: Buckets, bucket: string, query: URLSearchParams): Answer {
  const allowed = ["list-type", "encoding-type", "prefix", "continuation-token", "max-keys", "start-after"];
  const unknown = [...query.keys()].filter((name) => !allowed.includes(name));
  if (unknown.length > 0 || query.get("list-type") !== "2") return error(501, "NotImplemented", `${unknown}`);
  const token = query.get("continuation-token");
  const after = token === null ? "" : Buffer.from(token, "base64url").toString();
  if (token !== null && !after.startsWith("after:"))
    return error(400, "InvalidArgument", "continuation token");
  const names = buckets.names(bucket, query.get("prefix") ?? "");
  const left =
    token === null
      ? names
      : names.filter((name) => Buffer.compare(Buffer.from(name), Buffer.from(after.slice(6))) > 0);
  const page = left.slice(0, Math.min(buckets.pageSize, 1000));
  const truncated = left.length > page.length;
  const encode = (name: string) =>
    query.get("encoding-type") === "url"
      ? encodeURIComponent(name).replaceAll("%2F", "/").replaceAll("%20", "+")
      : name.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  const items = page.map((name) => {
    const { body } = buckets.objects.get(bucket)!.get(name)!;
    return `<Contents><Key>${encode(name)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><Size>${body.length}</Size><StorageClass>STANDARD</StorageClass></Contents>`;
  });
  const next = truncated
    ? `<NextContinuationToken>${Buffer.from(`after:${page.at(-1)}`).toString("base64url")}</NextContinuationToken>`
    : "";
  return xml(
    200,
    `<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>${bucket}</Name><KeyCount>${page.length}</KeyCount><IsTruncated>${truncated}</IsTruncated>${next}${items.join("")}</ListBucketResult>`,
  );
}

/** Computes the signature from the request as it came, without the code that is tested. */
export function checkSignature(
  { method, path, query, headers, raw }: Received,
  { keys, region }: KnownKeys,
): Answer | undefined {
  const given =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/s3\/aws4_request, ?SignedHeaders=([^,]+), ?Signature=([\da-f]{64})$/.exec(
      headers.authorization ?? "",
    );
  if (!given) return error(403, "AccessDenied", "Anonymous access is forbidden");
  const [, id, day, signedRegion, signedHeaders, signature] = given as unknown as string[];
  const key = keys.get(id!);
  if (!key)
    return error(
      403,
      "InvalidAccessKeyId",
      "The AWS Access Key Id you provided does not exist in our records.",
    );
  const time = headers["x-amz-date"] ?? "";
  const [, y, m, d, h, min, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(time) ?? [];
  const at = Date.parse(`${y}-${m}-${d}T${h}:${min}:${s}Z`);
  if (Number.isNaN(at) || !time.startsWith(day!)) return error(403, "AccessDenied", "Invalid date");
  if (Math.abs(at - Date.now()) > SKEW)
    return error(
      403,
      "RequestTimeTooSkewed",
      "The difference between the request time and the current time is too large.",
    );
  if (key.expires !== undefined && Date.now() > key.expires)
    return error(400, "ExpiredToken", "The provided token has expired.");
  if (headers["x-amz-security-token"] !== key.token)
    return error(
      400,
      "InvalidToken",
      `The provided token ${headers["x-amz-security-token"]} is malformed or otherwise invalid.`,
    );
  if (signedRegion !== region)
    return error(
      400,
      "AuthorizationHeaderMalformed",
      `The authorization header is malformed; the region '${signedRegion}' is wrong; expecting '${region}'`,
      `<Region>${region}</Region>`,
    );
  const names = signedHeaders!.split(";");
  const mustSign = Object.keys(headers).filter(
    (name) => name === "host" || name.startsWith("x-amz-") || name === "content-md5",
  );
  if (names.join() !== [...names].sort().join() || mustSign.some((name) => !names.includes(name)))
    return error(403, "AccessDenied", "There were headers present in the request which were not signed");
  const hash = headers["x-amz-content-sha256"] ?? "";
  const escaped = (text: string) =>
    encodeURIComponent(text).replace(
      /[!'()*]/g,
      (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
    );
  const pairs = [...query].map(([name, value]) => [escaped(name), escaped(value)] as const);
  pairs.sort(([a, x], [b, z]) => (a < b ? -1 : a > b ? 1 : x < z ? -1 : 1));
  const canonical = `${method}\n${path}\n${pairs.map((pair) => pair.join("=")).join("&")}\n${names
    .map((name) => `${name}:${(headers[name] ?? "").trim().replace(/\s+/g, " ")}\n`)
    .join("")}\n${names.join(";")}\n${hash}`;
  const text = `AWS4-HMAC-SHA256\n${time}\n${day}/${region}/s3/aws4_request\n${createHash("sha256").update(canonical).digest("hex")}`;
  let signing: Buffer = Buffer.from(`AWS4${key.secret}`);
  for (const part of [day!, region, "s3", "aws4_request"])
    signing = createHmac("sha256", signing).update(part).digest();
  const expected = createHmac("sha256", signing).update(text).digest();
  if (!timingSafeEqual(expected, Buffer.from(signature!, "hex")))
    return error(
      403,
      "SignatureDoesNotMatch",
      "The request signature we calculated does not match the signature you provided.",
    );
  if (hash !== createHash("sha256").update(raw).digest("hex"))
    return error(
      400,
      "XAmzContentSHA256Mismatch",
      "The provided 'x-amz-content-sha256' header does not match what was computed.",
    );
  return undefined;
}

/** `/bucket/name`, with the name unescaped. */
function placeOf(path: string): { bucket: string; name: string } {
  const [, bucket = "", ...name] = path.split("/");
  return { bucket, name: name.map(decodeURIComponent).join("/") };
}

function error(status: number, code: string, message: string, more = ""): Answer {
  return xml(
    status,
    `<Error><Code>${code}</Code><Message>${message}</Message>${more}<RequestId>TEST</RequestId></Error>`,
  );
}

function xml(status: number, body: string): Answer {
  return {
    status,
    headers: { "content-type": "application/xml" },
    body: `<?xml version="1.0" encoding="UTF-8"?>\n${body}`,
  };
}
