import { fileURLToPath } from "node:url";
import { OptionsError } from "../base/check-options.ts";
import { type NamesOf, refuseUnknown } from "../base/refuse-unknown.ts";
import { readSwitch } from "../base/switch.ts";
import type { Environment } from "./aws-credentials.ts";
import { azureDriver } from "./azure.ts";
import { type CallLimits, type CallTools, SHARED_NAMES } from "./call.ts";
import { fileDriver } from "./file.ts";
import { gcsDriver } from "./gcs.ts";
import { s3Driver } from "./s3.ts";
import type { StorageDriver } from "./storage-driver.ts";

/** What follows the question mark, by scheme. */
const PARAMETERS: Readonly<Record<string, readonly string[]>> = {
  "s3:": ["region", "endpoint", "conditional"],
  "gs:": ["endpoint"],
  "azblob:": ["endpoint"],
  "file:": [],
};
const FORMS =
  "s3://bucket/prefix?region=eu-central-1, gs://bucket/prefix, azblob://account/container/prefix or file:///folder";

export interface StorageUrlOptions extends CallTools, CallLimits {
  /** Where credentials are looked for. @default process.env */
  readonly env?: Environment | undefined;
  /** Where the URL is from, for messages. @default "The URL of the storage" */
  readonly name?: string | undefined;
}

const NAMES: NamesOf<StorageUrlOptions> = { ...SHARED_NAMES, env: true, name: true };

/** The storage that a variable of a service names. @throws {OptionsError} */
export function storageFromVariable(name: string, url: string, limits: CallLimits = {}): StorageDriver {
  try {
    return storageFromUrl(url, { name, ...limits });
  } catch (error) {
    throw error instanceof TypeError ? new OptionsError(error.message) : error;
  }
}

/**
 * The storage that a URL names: `s3://bucket/prefix?region=…&endpoint=…`, `gs://bucket/prefix`,
 * `azblob://account/container/prefix`, `file:///folder`.
 * Credentials are never part of it.
 *
 * @throws {TypeError} if it is not such a URL; its text is not in the message.
 */
export function storageFromUrl(text: string, options: StorageUrlOptions = {}): StorageDriver {
  refuseUnknown(options, NAMES, "storageFromUrl");
  const { name = "The URL of the storage", ...tools } = options;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const known = url && PARAMETERS[url.protocol];
  if (url === undefined || known === undefined) throw new TypeError(`${name} must look like ${FORMS}`);
  if (url.username !== "" || url.password !== "")
    throw new TypeError(
      `${name} has credentials, which end in logs: remove them, and set the variables of the provider instead`,
    );
  for (const parameter of url.searchParams.keys())
    if (!known.includes(parameter)) {
      const allowed =
        known.length === 0 ? "has no parameters" : `has only the parameters ${known.join(", ")}`;
      throw new TypeError(`${name} has the unknown parameter "${parameter}": ${url.protocol}// ${allowed}`);
    }
  if (url.protocol === "file:") return fileDriver({ folder: folderOf(url, name) });
  const bucket = url.hostname;
  if (!/^[a-z\d][a-z\d._-]{1,221}$/.test(bucket)) throw new TypeError(`${name} must name a bucket: ${FORMS}`);
  const endpoint = endpointOf(url, name);
  const prefix = decodeURIComponent(url.pathname);
  if (url.protocol === "azblob:") {
    const [, container = "", ...path] = prefix.split("/");
    if (container === "") throw new TypeError(`${name} must name an account and a container: ${FORMS}`);
    return azureDriver({ ...tools, account: bucket, container, prefix: path.join("/"), endpoint });
  }
  if (url.protocol === "gs:") return gcsDriver({ ...tools, bucket, prefix, endpoint });
  const given = url.searchParams.get("conditional");
  const conditional = given === null ? undefined : readSwitch(given);
  if (given !== null && conditional === undefined)
    throw new TypeError(`${name} has the parameter "conditional", which must be true or false`);
  const region = url.searchParams.get("region") ?? undefined;
  return s3Driver({
    ...{ ...tools, bucket, prefix, endpoint, region },
    ...(conditional !== undefined && { conditional }),
  });
}

/** Whether a text is meant as the URL of a storage. */
export function isStorageUrl(text: string): boolean {
  return Object.keys(PARAMETERS).some((protocol) => text.startsWith(`${protocol}//`));
}

/** A URL without what a message should not repeat. */
export function describeStorageUrl(text: string): string {
  if (!URL.canParse(text)) return "the storage";
  const { protocol, hostname, pathname } = new URL(text);
  return `${protocol}//${hostname}${pathname}`;
}

function folderOf(url: URL, name: string): string {
  if (url.hostname !== "" && url.hostname !== "localhost")
    throw new TypeError(`${name} names a folder of another machine: use three slashes, as in file:///folder`);
  return fileURLToPath(url);
}

function endpointOf(url: URL, name: string): string | undefined {
  const endpoint = url.searchParams.get("endpoint");
  if (endpoint === null) return undefined;
  if (!URL.canParse(endpoint) || !/^https?:$/.test(new URL(endpoint).protocol))
    throw new TypeError(`${name} has an endpoint that is not a URL of http or https`);
  const { username, password } = new URL(endpoint);
  if (username !== "" || password !== "")
    throw new TypeError(`${name} has credentials in its endpoint: remove them`);
  return endpoint;
}
