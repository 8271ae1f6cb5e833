import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { messageOf } from "../base/error-text.ts";
import type { Environment } from "./aws-credentials.ts";
import { type CallTools, send } from "./call.ts";
import { StorageFailure } from "./storage-failure.ts";

export interface GoogleToken {
  readonly token: string;
  /** In milliseconds since 1970. */
  readonly expires: number;
}

type AuthLibrary = typeof import("google-auth-library");
const SCOPE = "https://www.googleapis.com/auth/devstorage.read_write";
/** Milliseconds for which the library's tokens are used before it is asked again; it keeps them itself. */
const LIBRARY_TIME = 10 * 60_000;

/**
 * A token for Cloud Storage: of a key file or workload identity (GOOGLE_APPLICATION_CREDENTIALS) or the login of gcloud, by
 * means of google-auth-library; else of the machine's service account, as Cloud Run, GKE and Compute Engine have it.
 *
 * @throws {StorageFailure} if there is none.
 */
export async function findGoogleToken(env: Environment, tools: CallTools): Promise<GoogleToken> {
  const file = env.GOOGLE_APPLICATION_CREDENTIALS || loginOf(env);
  return file === undefined ? fromMachine(env, tools) : fromFile(file, tools);
}

/** Where gcloud keeps application default credentials. */
function loginOf(env: Environment): string | undefined {
  const folder = env.CLOUDSDK_CONFIG || join(env.HOME ?? homedir(), ".config", "gcloud");
  const file = join(folder, "application_default_credentials.json");
  return existsSync(file) ? file : undefined;
}

async function fromFile(keyFile: string, { now = () => new Date() }: CallTools): Promise<GoogleToken> {
  let library: AuthLibrary;
  try {
    library = await import("google-auth-library");
  } catch (cause) {
    throw new StorageFailure("Credentials from a file need the package google-auth-library", {
      reason: "denied",
      detail: "Install it (npm install google-auth-library), or run with a service account of Google Cloud.",
      cause,
    });
  }
  try {
    const token = await new library.GoogleAuth({ scopes: [SCOPE], keyFile }).getAccessToken();
    if (token) return { token, expires: now().getTime() + LIBRARY_TIME };
  } catch (error) {
    throw refused(`the file ${keyFile}`, error);
  }
  throw refused(`the file ${keyFile}`, "no token");
}

async function fromMachine(env: Environment, tools: CallTools): Promise<GoogleToken> {
  const { now = () => new Date() } = tools;
  const host = env.GCE_METADATA_HOST ?? "metadata.google.internal";
  const url = `http://${host}/computeMetadata/v1/instance/service-accounts/default/token`;
  const headers = { "metadata-flavor": "Google" };
  try {
    const response = await send({ method: "GET", url, headers }, { ...tools, timeout: 3000 });
    if (response.status !== 200) throw new Error(`status ${response.status}`);
    const { access_token, expires_in } = JSON.parse(response.body.toString()) as Record<string, unknown>;
    if (typeof access_token !== "string" || typeof expires_in !== "number") throw new Error("no token");
    return { token: access_token, expires: now().getTime() + expires_in * 1000 };
  } catch (error) {
    throw refused("the machine's service account", error);
  }
}

function refused(who: string, why: unknown): StorageFailure {
  const says = messageOf(why);
  return new StorageFailure(`Credentials for the bucket could not be obtained from ${who} (${says})`, {
    reason: "unavailable",
    detail:
      "Run with a service account (Cloud Run, GKE, Compute Engine), set GOOGLE_APPLICATION_CREDENTIALS to a key file, or log in with: gcloud auth application-default login",
  });
}
