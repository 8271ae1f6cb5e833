import { createHash, createHmac } from "node:crypto";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import type { Environment } from "./aws-credentials.ts";
import { type AzureCredentials, findAzureCredentials } from "./azure-credentials.ts";
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
import { objectDriver } from "./object-driver.ts";
import { Renewed } from "./renewed.ts";
import { urlOf } from "./sign-v4.ts";
import type { CreatingStorageDriver } from "./storage-driver.ts";
import { elementOf, sentenceOf, unescapeXml } from "./xml.ts";

export interface AzureOptions extends CallTools, CallLimits {
  /** Name of the storage account. */
  readonly account: string;
  readonly container: string;
  /** Folder in the container. @default the whole container */
  readonly prefix?: string | undefined;
  /** URL of the account's blobs, in another cloud of Azure. @default https://<account>.blob.core.windows.net */
  readonly endpoint?: string | undefined;
  /** @default what the environment has: the account's key, a shared access signature, an identity */
  readonly credentials?: AzureCredentials | (() => Promise<AzureCredentials>) | undefined;
  /** @default process.env */
  readonly env?: Environment | undefined;
}

const NAMES: NamesOf<AzureOptions> = {
  ...SHARED_NAMES,
  ...{ account: true, container: true, prefix: true, endpoint: true, credentials: true, env: true },
};

/**
 * A driver for a container of Azure Blob Storage. That of unstorage takes a failed read for a missing item, and needs the SDK.
 *
 * @example
 * azureDriver({ account: "mycompany", container: "agents", prefix: "production" })
 */
export function azureDriver(options: AzureOptions): CreatingStorageDriver {
  refuseUnknown(options, NAMES, "azureDriver");
  const container = new AzureContainer(options);
  return objectDriver(
    { name: "agent-control-azure", prefix: options.prefix },
    {
      has: async (path) => (await container.call({ method: "HEAD", path, absent: true })).status !== 404,
      async read(path) {
        const { status, body } = await container.call({ method: "GET", path, absent: true });
        return status === 404 ? undefined : body;
      },
      put: (path, body) => container.call({ method: "PUT", path, body }),
      create: async (path, body) =>
        (await container.call({ method: "PUT", path, body, creates: true })).status === 201,
      remove: (path) => container.call({ method: "DELETE", path, absent: true }),
      list: (prefix) => container.list(prefix),
    },
  );
}

interface AzureRequest {
  readonly method: Call["method"];
  /** Path of the blob; "" for the container. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
  /** Only if there is no such blob. */
  readonly creates?: boolean;
  /** The blob may be missing. */
  readonly absent?: boolean;
}

const VERSION = "2021-12-02";

class AzureContainer {
  readonly #options: AzureOptions;
  readonly #base: string;
  readonly #credentials: Renewed<AzureCredentials>;
  readonly #now: () => Date;

  constructor(options: AzureOptions) {
    const { account, container, endpoint, env = process.env, now = () => new Date(), credentials } = options;
    this.#options = options;
    this.#now = now;
    this.#base = `${checkEndpoint(endpoint ?? `https://${account}.blob.core.windows.net`)}/${container}`;
    this.#credentials = new Renewed(credentials, () => findAzureCredentials(env, options), now);
  }

  call(request: AzureRequest): Promise<Response> {
    return converse({
      options: this.#options,
      name: `The container "${this.#options.container}"`,
      credentials: this.#credentials,
      prepare: (secrets) => this.#sign(request, secrets),
      judge: (response, secrets) => judge(response, request, secrets),
    });
  }

  /** Paths that begin with a prefix, of all pages. */
  async list(prefix: string): Promise<string[]> {
    const paths: string[] = [];
    for (let marker = ""; ; ) {
      const query = { restype: "container", comp: "list", prefix, ...(marker && { marker }) };
      const xml = (await this.call({ method: "GET", path: "", query })).body.toString();
      for (const [, blob] of xml.matchAll(/<Blob>(.*?)<\/Blob>/gs)) {
        // With a hierarchical namespace, folders are listed too.
        if (elementOf(blob!, "ResourceType") === "directory") continue;
        paths.push(unescapeXml(elementOf(blob!, "Name") ?? ""));
      }
      marker = unescapeXml(elementOf(xml, "NextMarker") ?? "");
      if (marker === "") return paths;
    }
  }

  #sign({ method, path, query = {}, body, creates }: AzureRequest, credentials: AzureCredentials): Call {
    const url = urlOf(path === "" ? this.#base : `${this.#base}/`, path, query);
    const headers: Record<string, string> = {
      "x-ms-date": this.#now().toUTCString(),
      "x-ms-version": VERSION,
      ...(body && {
        // What arrives must have it, or it is not stored; what is read is compared with it.
        "content-md5": md5Of(body),
        "content-type": "application/octet-stream",
        "x-ms-blob-type": "BlockBlob",
      }),
      ...(creates && { "if-none-match": "*" }),
    };
    if ("sas" in credentials) url.search += `${url.search && "&"}${credentials.sas}`;
    if ("token" in credentials) headers.authorization = `Bearer ${credentials.token}`;
    if ("key" in credentials) {
      const { account } = this.#options;
      const text = textToSign({ method, url, headers, account, size: body?.length ?? 0 });
      const signature = createHmac("sha256", Buffer.from(credentials.key, "base64"))
        .update(text)
        .digest("base64");
      headers.authorization = `SharedKey ${account}:${signature}`;
    }
    return { method, url: url.href, headers, body };
  }
}

/** What a request with the account's key is signed with, as Azure documents it for the scheme "Shared Key". */
function textToSign({
  method,
  url,
  headers,
  account,
  size,
}: {
  method: string;
  url: URL;
  headers: Readonly<Record<string, string>>;
  account: string;
  size: number;
}): string {
  const standard = [
    ...["content-encoding", "content-language", "content-length", "content-md5", "content-type", "date"],
    ...["if-modified-since", "if-match", "if-none-match", "if-unmodified-since", "range"],
  ].map((name) => (name === "content-length" ? String(size || "") : (headers[name] ?? "")));
  const own = Object.keys(headers)
    .filter((name) => name.startsWith("x-ms-"))
    .sort()
    .map((name) => `${name}:${headers[name]}`);
  const parameters = [...url.searchParams].sort(([a], [b]) => (a < b ? -1 : 1));
  const resource = [`/${account}${url.pathname}`, ...parameters.map(([name, value]) => `${name}:${value}`)];
  return [method, ...standard, ...own, ...resource].join("\n");
}

function judge(response: Response, request: AzureRequest, secrets: AzureCredentials): Verdict | undefined {
  const { status, headers, body } = response;
  if (status < 300) return judgeContent(response, request);
  const xml = body.toString();
  const code = headers.get("x-ms-error-code") ?? elementOf(xml, "Code") ?? "";
  const says = `${[status, code].filter(Boolean).join(" ")}${sentenceOf(xml, Object.values(secrets))}`;
  if (code === "ContainerNotFound" || code === "ContainerBeingDeleted") return { reason: "gone", says };
  if (status === 404) return request.absent ? undefined : { reason: "gone", says };
  if (request.creates && (code === "BlobAlreadyExists" || status === 412)) return undefined;
  if (/Request date header too old|not within the valid/i.test(xml)) return { reason: "clock", says };
  if (/^(InvalidAuthenticationInfo|AuthenticationFailed|NoAuthenticationInformation)$/.test(code))
    return { reason: "denied", says, renew: true };
  if (status === 429 || code === "ServerBusy") return { reason: "throttled", says };
  if (status === 507 || /CapacityExceeded|QuotaExceeded/.test(code)) return { reason: "full", says };
  // Md5Mismatch: what arrived is not what was sent.
  if (status >= 500 || status === 408 || code === "Md5Mismatch") return { reason: "unavailable", says };
  return { reason: "denied", says };
}

function judgeContent({ body, headers }: Response, { method, path }: AzureRequest): Verdict | undefined {
  if (method !== "GET") return undefined;
  if (path === "")
    return body.includes("</EnumerationResults>")
      ? undefined
      : { reason: "unavailable", says: "its list is incomplete" };
  const md5 = headers.get("content-md5");
  if (md5 === null || md5 === md5Of(body)) return undefined;
  return { reason: "damaged", says: `the checksum of ${path} is another one`, again: true };
}

function md5Of(bytes: Uint8Array): string {
  return createHash("md5").update(bytes).digest("base64");
}
