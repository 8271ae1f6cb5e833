import { createHash, createHmac } from "node:crypto";

/** Credentials of AWS, or of a provider with the same signatures. */
export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
  /** When they expire, in milliseconds since 1970; never if absent. */
  readonly expires?: number | undefined;
}

export interface Unsigned {
  readonly method: string;
  /** Its path and query are escaped as RFC 3986 says. */
  readonly url: URL;
  /** Lower-case names. All are signed. */
  readonly headers: Readonly<Record<string, string>>;
  /** Hexadecimal SHA-256 of the body. */
  readonly bodyHash: string;
}

/** The headers of a request with its signature, version 4, for S3: the path is not escaped twice. */
export function signV4(
  { method, url, headers, bodyHash }: Unsigned,
  { credentials, region, now }: { credentials: AwsCredentials; region: string; now: Date },
): Record<string, string> {
  const time = now.toISOString().replace(/[-:]|\.\d{3}/g, "");
  const day = time.slice(0, 8);
  const signed: Record<string, string> = {
    ...headers,
    host: url.host,
    "x-amz-content-sha256": bodyHash,
    "x-amz-date": time,
    ...(credentials.sessionToken ? { "x-amz-security-token": credentials.sessionToken } : {}),
  };
  const names = Object.keys(signed).sort();
  const query = [...url.searchParams]
    .map(([name, value]) => `${escapeUri(name)}=${escapeUri(value)}`)
    .sort()
    .join("&");
  const canonical = [
    method,
    url.pathname,
    query,
    ...names.map((name) => `${name}:${signed[name]!.trim().replace(/ +/g, " ")}`),
    "",
    names.join(";"),
    bodyHash,
  ].join("\n");
  const scope = `${day}/${region}/s3/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256Hex(canonical)].join("\n");
  const key = [day, region, "s3", "aws4_request"].reduce<string | Buffer>(
    (parent, part) => hmac(parent, part),
    `AWS4${credentials.secretAccessKey}`,
  );
  const signature = hmac(key, text).toString("hex");
  const { host: _, ...sent } = signed;
  return {
    ...sent,
    authorization: `AWS4-HMAC-SHA256 Credential=${credentials.accessKeyId}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`,
  };
}

/** Escapes as RFC 3986 says: more than `encodeURIComponent`. */
export function escapeUri(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** The URL of an object, or of its bucket for "", below the bucket's own. */
export function urlOf(base: string, path: string, query: Readonly<Record<string, string>>): URL {
  const url = new URL(base + path.split("/").map(escapeUri).join("/"));
  url.search = Object.entries(query)
    .map(([name, value]) => `${name}=${escapeUri(value)}`)
    .join("&");
  return url;
}

export function sha256Hex(data: string | Uint8Array): string {
  return createHash("sha256").update(data).digest("hex");
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
