import { createHash, createHmac } from "node:crypto";
import type { Answer, Received } from "../platforms/http-server.ts";
import { Buckets, type ObjectServer, type Seen, serveObjects } from "./object-server.ts";

export interface AzureServer extends ObjectServer {
  readonly account: string;
  /** The account's key, base64. */
  readonly key: string;
  /** Tokens that are accepted, with the moment at which each expires. */
  readonly tokens: Map<string, number>;
}

const SKEW = 15 * 60_000;

/** Emulates Blob Storage: addresses with the account in the path, shared keys, tokens, pages, conditions, checksums. Strict. */
export async function startAzure(names: readonly string[]): Promise<AzureServer> {
  const buckets = new Buckets(names);
  const account = "testaccount";
  const key = Buffer.from("the key of the account of the tests").toString("base64");
  const tokens = new Map<string, number>();
  const server = await serveObjects(
    buckets,
    (request) => answer(buckets, request, { account, key, tokens }),
    (request) => describeRequest(request),
  );
  return { ...server, url: `${server.url}/${account}`, account, key, tokens };
}

type Known = Pick<AzureServer, "account" | "key" | "tokens">;

function describeRequest({ method, path, headers, query }: Received): Pick<Seen, "kind" | "name"> {
  const { name } = placeOf(path);
  if (method === "DELETE") return { kind: "remove", name };
  if (method === "PUT") return { kind: headers["if-none-match"] ? "create" : "write", name };
  return name === "" ? { kind: "list", name: query.get("prefix") ?? "" } : { kind: "read", name };
}

function answer(buckets: Buckets, request: Received, known: Known): Answer {
  const refusal = checkAccess(request, known);
  if (refusal) return refusal;
  const { method, path, query, headers, raw } = request;
  const { container, name } = placeOf(path);
  const blobs = buckets.objects.get(container);
  if (!blobs) return error(404, "ContainerNotFound", "The specified container does not exist.");
  const { kind } = describeRequest(request);
  if (buckets.denied.has(kind))
    return error(403, "AuthorizationPermissionMismatch", "This request is not authorized.");
  if (name === "") {
    if (method !== "GET" || query.get("restype") !== "container" || query.get("comp") !== "list")
      return error(400, "InvalidQueryParameterValue", "Value for one of the query parameters is invalid.");
    return list(buckets, container, query);
  }
  const found = blobs.get(name);
  if (method === "PUT") {
    if (headers["x-ms-blob-type"] !== "BlockBlob")
      return error(400, "MissingRequiredHeader", "x-ms-blob-type");
    const md5 = createHash("md5").update(raw).digest("base64");
    if (headers["content-md5"] === undefined) buckets.violations.push(`${path}: no checksum`);
    else if (headers["content-md5"] !== md5)
      return error(400, "Md5Mismatch", "The MD5 value specified in the request did not match.");
    if (buckets.full) return error(507, "AccountCapacityExceeded", "The account is full.");
    if (headers["if-none-match"] === "*" && found)
      return error(409, "BlobAlreadyExists", "The specified blob already exists.");
    buckets.put(container, name, { body: raw, headers: { "content-md5": md5 } });
    return { status: 201 };
  }
  if (!found) return error(404, "BlobNotFound", "The specified blob does not exist.");
  if (method === "DELETE") {
    blobs.delete(name);
    return { status: 202 };
  }
  const headersOf = { "content-type": "application/octet-stream", ...found.headers };
  if (method === "HEAD")
    return { status: 200, headers: { ...headersOf, "content-length": String(found.body.length) } };
  return { status: 200, headers: headersOf, body: found.body };
}

function checkAccess(request: Received, { account, key, tokens }: Known): Answer | undefined {
  const { headers } = request;
  if (!/^\d{4}-\d\d-\d\d$/.test(headers["x-ms-version"] ?? ""))
    return error(400, "MissingRequiredHeader", "x-ms-version");
  const [scheme, credentials = ""] = (headers.authorization ?? "").split(" ");
  if (scheme === "Bearer") {
    if ((tokens.get(credentials) ?? 0) > Date.now()) return undefined;
    return error(401, "InvalidAuthenticationInfo", `Lifetime validation failed: ${credentials} has expired.`);
  }
  if (Math.abs(Date.parse(headers["x-ms-date"] ?? "") - Date.now()) > SKEW)
    return error(
      403,
      "AuthenticationFailed",
      "Server failed to authenticate.",
      "Request date header too old",
    );
  const signature = createHmac("sha256", Buffer.from(key, "base64"))
    .update(canonical(request, account))
    .digest("base64");
  if (scheme === "SharedKey" && credentials === `${account}:${signature}`) return undefined;
  return error(403, "AuthenticationFailed", "Server failed to authenticate the request.");
}

/** The text that "Shared Key" signs, from what arrived. */
function canonical({ method, path, query, headers, raw }: Received, account: string): string {
  const of = (name: string) => headers[name] ?? "";
  const custom = Object.entries(headers)
    .filter(([name]) => name.startsWith("x-ms-"))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}:${value}\n`)
    .join("");
  const parameters = [...query]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `\n${name}:${value}`);
  return (
    `${method}\n${of("content-encoding")}\n${of("content-language")}\n${raw.length || ""}\n${of("content-md5")}\n` +
    `${of("content-type")}\n${of("date")}\n${of("if-modified-since")}\n${of("if-match")}\n${of("if-none-match")}\n` +
    `${of("if-unmodified-since")}\n${of("range")}\n${custom}/${account}${path}${parameters.join("")}`
  );
}

function list(buckets: Buckets, container: string, query: URLSearchParams): Answer {
  const marker = query.get("marker") ?? "";
  const left = buckets.names(container, query.get("prefix") ?? "").filter((name) => name > marker);
  const page = left.slice(0, buckets.pageSize);
  const next = left.length > page.length ? page.at(-1) : "";
  // A folder of an account with a hierarchical namespace.
  const folder =
    "<Blob><Name>folder</Name><Properties><ResourceType>directory</ResourceType></Properties></Blob>";
  const blobs = page.map((name) => `<Blob><Name>${name}</Name><Properties /></Blob>`);
  const body = `<?xml version="1.0" encoding="utf-8"?><EnumerationResults><Blobs>${folder}${blobs.join("")}</Blobs><NextMarker>${next}</NextMarker></EnumerationResults>`;
  return { status: 200, headers: { "content-type": "application/xml" }, body };
}

/** `/<account>/<container>/<name>`, as the paths of requests are. */
function placeOf(path: string): { container: string; name: string } {
  const [, , container = "", ...rest] = path.split("/");
  return { container, name: decodeURIComponent(rest.join("/")) };
}

function error(status: number, code: string, message: string, detail?: string): Answer {
  const more = detail === undefined ? "" : `<AuthenticationErrorDetail>${detail}</AuthenticationErrorDetail>`;
  return {
    status,
    headers: { "content-type": "application/xml", "x-ms-error-code": code },
    body: `<?xml version="1.0" encoding="utf-8"?><Error><Code>${code}</Code><Message>${message}</Message>${more}</Error>`,
  };
}
