import { createHash } from "node:crypto";
import { checkGoogle } from "../platforms/contract/google.ts";
import type { Answer, Received } from "../platforms/http-server.ts";
import { Buckets, type ObjectServer, type Seen, serveObjects } from "./object-server.ts";

export interface GcsServer extends ObjectServer {
  /** Tokens that are accepted, with the moment at which each expires. */
  readonly tokens: Map<string, number>;
}

const BUCKET = "/storage/v1/b/";
const UPLOAD = "/upload/storage/v1/b/";

/** Emulates the JSON API of Cloud Storage: tokens, pages, preconditions, checksums. Strict; checked against Google's model of it. */
export async function startGcs(
  names: readonly string[],
  { token = "ya29.test-token" }: { token?: string } = {},
): Promise<GcsServer> {
  const buckets = new Buckets(names);
  const tokens = new Map([[token, Number.POSITIVE_INFINITY]]);
  const server = await serveObjects(buckets, (request) => answer(buckets, request, tokens), describeRequest);
  return { ...server, tokens };
}

function describeRequest(request: Received): Pick<Seen, "kind" | "name"> {
  const { method, path, query } = request;
  if (path.startsWith(UPLOAD)) {
    const kind = query.has("ifGenerationMatch") ? "create" : "write";
    return { kind, name: String(readUpload(request)?.resource.name ?? "") };
  }
  const { name } = placeOf(path);
  if (method === "DELETE") return { kind: "remove", name };
  return name === "" ? { kind: "list", name: query.get("prefix") ?? "" } : { kind: "read", name };
}

function answer(buckets: Buckets, request: Received, tokens: ReadonlyMap<string, number>): Answer {
  const { method, path, query, headers } = request;
  const token = headers.authorization?.replace(/^Bearer /, "") ?? "";
  if (!((tokens.get(token) ?? 0) > Date.now())) return error(401, "authError", `Invalid Credentials`);
  const upload = path.startsWith(UPLOAD) ? readUpload(request) : undefined;
  // The model describes uploads as `multipart/related` by their resource.
  const checked = checkGoogle("storage", { method, path, query, body: upload?.resource });
  buckets.violations.push(...checked);
  const { bucket, name } = placeOf(path);
  const objects = buckets.objects.get(bucket);
  if (!objects) return error(404, "notFound", "The specified bucket does not exist.");
  if (buckets.denied.has(describeRequest(request).kind))
    return error(
      403,
      "forbidden",
      "agent@example.iam.gserviceaccount.com does not have storage.objects access to the bucket.",
    );
  if (path.startsWith(UPLOAD)) return insert(buckets, bucket, request, upload);
  if (name === "") return list(buckets, bucket, query);
  const found = objects.get(name);
  if (!found) {
    const text = `No such object: ${bucket}/${name}`;
    if (query.get("alt") === "media")
      return { status: 404, headers: { "content-type": "text/html" }, body: text };
    return error(404, "notFound", text);
  }
  if (method === "DELETE") {
    objects.delete(name);
    return { status: 204 };
  }
  if (query.get("alt") !== "media") return { status: 200, body: { name } };
  const md5 = createHash("md5").update(found.body).digest("base64");
  return {
    status: 200,
    headers: { "content-type": "application/octet-stream", "x-goog-hash": `crc32c=AAAAAA==,md5=${md5}` },
    body: found.body,
  };
}

interface Upload {
  readonly resource: { readonly name?: string; readonly md5Hash?: string };
  readonly body: Buffer;
}

function insert(buckets: Buckets, bucket: string, { query }: Received, upload: Upload | undefined): Answer {
  if (query.get("uploadType") !== "multipart" || !upload?.resource.name)
    return error(400, "badRequest", "Malformed multipart body.");
  const { resource, body } = upload;
  const name = resource.name!;
  const md5Hash = createHash("md5").update(body).digest("base64");
  if (resource.md5Hash === undefined) buckets.violations.push(`${name}: no checksum`);
  else if (resource.md5Hash !== md5Hash)
    return error(
      400,
      "invalid",
      `Provided MD5 hash "${resource.md5Hash}" doesn't match calculated MD5 hash "${md5Hash}".`,
    );
  if (buckets.full) return error(403, "quotaExceeded", "The project's storage quota is exceeded.");
  const condition = query.get("ifGenerationMatch");
  const generation = buckets.objects.get(bucket)!.get(name)?.generation ?? 0;
  if (condition !== null && Number(condition) !== generation)
    return error(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.");
  return {
    status: 200,
    body: { name, generation: String(buckets.put(bucket, name, { body, headers: {} })) },
  };
}

/** The two parts of a body: the resource and the content. */
function readUpload({ headers, raw }: Received): Upload | undefined {
  const boundary = /^multipart\/related; ?boundary="?([^"]+)"?$/.exec(headers["content-type"] ?? "")?.[1];
  if (boundary === undefined) return undefined;
  const text = raw.toString("latin1");
  const head = text.indexOf("\r\n\r\n");
  const middle = text.indexOf(`\r\n--${boundary}\r\n`, head);
  const start = text.indexOf("\r\n\r\n", middle + 1);
  const end = text.lastIndexOf(`\r\n--${boundary}--`);
  if (!text.startsWith(`--${boundary}\r\n`) || [head, middle, start, end].includes(-1)) return undefined;
  return {
    resource: JSON.parse(raw.subarray(head + 4, middle).toString()) as Upload["resource"],
    body: raw.subarray(start + 4, end),
  };
}

function list(buckets: Buckets, bucket: string, query: URLSearchParams): Answer {
  const token = query.get("pageToken");
  const after = token === null ? undefined : Buffer.from(token, "base64url").toString();
  if (after !== undefined && !after.startsWith("after:")) return error(400, "invalid", "Invalid page token");
  const left = buckets
    .names(bucket, query.get("prefix") ?? "")
    .filter(
      (name) => after === undefined || Buffer.compare(Buffer.from(name), Buffer.from(after.slice(6))) > 0,
    );
  const size = Math.min(buckets.pageSize, Number(query.get("maxResults") ?? 1000));
  const page = left.slice(0, size);
  const more = left.length > page.length;
  return {
    status: 200,
    body: {
      ...(page.length > 0 ? { items: page.map((name) => ({ name })) } : {}),
      ...(more ? { nextPageToken: Buffer.from(`after:${page.at(-1)}`).toString("base64url") } : {}),
    },
  };
}

/** The name is empty where a request is about all objects. */
function placeOf(path: string): { bucket: string; name: string } {
  const rest = path.slice(path.startsWith(UPLOAD) ? UPLOAD.length : BUCKET.length);
  const [bucket = "", , name = ""] = rest.split("/");
  return { bucket, name: decodeURIComponent(name) };
}

function error(code: number, reason: string, message: string): Answer {
  return {
    status: code,
    body: { error: { code, message, errors: [{ message, domain: "global", reason }] } },
  };
}
