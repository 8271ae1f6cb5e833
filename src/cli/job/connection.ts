import { join, resolve } from "node:path";
import { isLoopback } from "../../core/base/loopback.ts";
import { option } from "../../core/base/option.ts";
import { quoted } from "../../core/base/quoted.ts";
import { readIfThere } from "../../core/base/read-if-there.ts";
import type { CliContext } from "../context.ts";
import { certificateFile } from "../dev/certificate.ts";
import { UsageError } from "../errors.ts";
import { readLogin } from "../logins.ts";
import { withSecretFiles } from "../secret-files.ts";
import { createPinnedFetch } from "./pinned-fetch.ts";
import { ServiceClient } from "./service-client.ts";

/** The service to talk to. */
export const CONNECTION_FLAGS = {
  url: option.text("URL of the service (default: SERVICE_URL)", "url"),
  key: option.text("its API key; prefer the variable SERVICE_API_KEY", "key"),
  insecure: option.flag("allow sending the key to another machine over plain http"),
  json: option.flag("print JSON"),
};

/** File in the data folder with the address that the running service listens on. */
export const ADDRESS_FILE = "address";
/** Where the service that ended last was: for people, no command connects to it. */
export const LAST_ADDRESS_FILE = "last-address";

interface ConnectionFlags {
  readonly url?: string | undefined;
  readonly key?: string | undefined;
  readonly insecure?: boolean | undefined;
}

/** Where a service is. */
export interface FoundService {
  /** With its API prefix. */
  readonly url: string;
  /** Without. */
  readonly origin: string;
  /** The key that the environment or the data folder has for it. */
  readonly key: string | undefined;
  /** A client that sends this key, to another address of the service where one is given. */
  clientOf(key: string | undefined, url?: string, isSignedIn?: boolean): ServiceClient;
}

/**
 * Connects to the service named by the flags, else by the environment, else to the one started in this
 * folder. A service on this machine needs no key: it is read from the data folder. Elsewhere, who has signed in
 * (`svc login`) needs none either.
 */
export async function connect(flags: ConnectionFlags, context: CliContext): Promise<ServiceClient> {
  const { origin, key, clientOf } = await findService(flags, context);
  if (key !== undefined) return clientOf(key);
  const login = await readLogin(origin, context);
  return clientOf(login?.token, undefined, login !== undefined);
}

/**
 * Finds the service of a command. Keys are sent to an address that the user named or to this machine, not to an address
 * from a file in the folder, which may have come with somebody else's project.
 */
export async function findService(flags: ConnectionFlags, context: CliContext): Promise<FoundService> {
  const { cwd } = context;
  const env = withSecretFiles(context.env);
  const dataDir = resolve(cwd, env.SERVICE_DATA_DIR || "data");
  const named = flags.url ?? (env.SERVICE_URL || undefined);
  const found = named === undefined ? await readText(join(dataDir, ADDRESS_FILE)) : undefined;
  const url = named ?? found ?? `http://127.0.0.1:${env.SERVICE_PORT || env.PORT || 8000}`;
  if (!URL.canParse(url) || !/^https?:/.test(url)) {
    throw new UsageError(`"${url}" is not a valid URL`, "Use a URL such as http://127.0.0.1:8000.");
  }
  const { protocol, hostname } = new URL(url);
  const isLocal = isLoopback(hostname);
  if (found !== undefined && !isLocal) {
    throw new UsageError(
      `${join(dataDir, ADDRESS_FILE)} points to ${url}, which is not on this machine`,
      "If that is your service, set it with --url or SERVICE_URL.",
    );
  }
  if (protocol === "http:" && !isLocal && !flags.insecure) {
    throw new UsageError(
      `${url} is on another machine, and http would send the key and all data unencrypted`,
      "Use https, or add --insecure if you trust the network in between.",
    );
  }
  const key =
    flags.key ??
    (env.SERVICE_API_KEY || undefined) ??
    (isLocal ? await readText(join(dataDir, "api-key")) : undefined);
  const isDev = protocol === "https:" && isLocal;
  const cert = isDev ? await readText(certificateFile(dataDir)) : undefined;
  const fetch = cert === undefined ? globalThis.fetch : createPinnedFetch(cert);
  const last =
    named === undefined ? (found ?? (await readText(join(dataDir, LAST_ADDRESS_FILE)))) : undefined;
  const again =
    flags.url === undefined ? [] : ["--url", quoted(flags.url), ...(flags.insecure ? ["--insecure"] : [])];
  return {
    ...{ url, origin: new URL(url).origin, key },
    clientOf: (sent, at = url, isSignedIn = false) =>
      new ServiceClient({
        ...{ url: at, key: sent, isSignedIn, fetch, last, flags: again },
        patience: { note: context.note },
      }),
  };
}

async function readText(file: string): Promise<string | undefined> {
  return (await readIfThere(file))?.trim() || undefined;
}
