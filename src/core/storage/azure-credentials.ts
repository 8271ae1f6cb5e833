import { readFileSync } from "node:fs";
import type { Environment } from "./aws-credentials.ts";
import { type Call, type CallTools, send } from "./call.ts";
import { StorageFailure } from "./storage-failure.ts";

/** What opens a storage account. `key`: the account's key, base64. `sas`: a shared access signature. `token`: of an identity. */
export type AzureCredentials =
  | { readonly key: string; readonly expires?: undefined }
  | { readonly sas: string; readonly expires?: undefined }
  | {
      readonly token: string;
      /** In milliseconds since 1970. */
      readonly expires: number;
    };

const RESOURCE = "https://storage.azure.com/";

/**
 * Credentials, where the tools of Azure find them, in this order: the key of the account, a shared access signature, the token
 * of a pod (workload identity), the secret of an app, the managed identity of an app or a container, that of a virtual machine.
 *
 * @throws {StorageFailure} if there are none.
 */
export async function findAzureCredentials(env: Environment, tools: CallTools): Promise<AzureCredentials> {
  if (env.AZURE_STORAGE_KEY) return { key: env.AZURE_STORAGE_KEY };
  if (env.AZURE_STORAGE_SAS_TOKEN) return { sas: env.AZURE_STORAGE_SAS_TOKEN.replace(/^\?/, "") };
  const { AZURE_TENANT_ID: tenant, AZURE_CLIENT_ID: client } = env;
  const isApp = tenant && client && (env.AZURE_FEDERATED_TOKEN_FILE || env.AZURE_CLIENT_SECRET);
  if (isApp) return ask("the app in Entra ID", appRequest(env, { tenant, client }), tools);
  return ask("the managed identity", identityRequest(env), tools);
}

function appRequest(env: Environment, { tenant, client }: { tenant: string; client: string }): Call {
  const host = (env.AZURE_AUTHORITY_HOST || "https://login.microsoftonline.com").replace(/\/+$/, "");
  const file = env.AZURE_FEDERATED_TOKEN_FILE;
  const proof: Record<string, string> = file
    ? {
        client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        client_assertion: readFileSync(file, "utf8").trim(),
      }
    : { client_secret: env.AZURE_CLIENT_SECRET! };
  const form = {
    grant_type: "client_credentials",
    client_id: client,
    scope: `${RESOURCE}.default`,
    ...proof,
  };
  return {
    method: "POST",
    url: `${host}/${encodeURIComponent(tenant)}/oauth2/v2.0/token`,
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: Buffer.from(new URLSearchParams(form).toString()),
  };
}

/** Apps and containers name an address and a header of their own; a virtual machine has a fixed address. */
function identityRequest({ IDENTITY_ENDPOINT, IDENTITY_HEADER, AZURE_CLIENT_ID }: Environment): Call {
  const hasOwn = IDENTITY_ENDPOINT && IDENTITY_HEADER;
  const url = new URL(hasOwn ? IDENTITY_ENDPOINT : "http://169.254.169.254/metadata/identity/oauth2/token");
  url.searchParams.set("api-version", hasOwn ? "2019-08-01" : "2018-02-01");
  url.searchParams.set("resource", RESOURCE);
  if (AZURE_CLIENT_ID) url.searchParams.set("client_id", AZURE_CLIENT_ID);
  const headers: Record<string, string> = hasOwn
    ? { "x-identity-header": IDENTITY_HEADER }
    : { metadata: "true" };
  return { method: "GET", url: url.href, headers };
}

async function ask(who: string, call: Call, tools: CallTools): Promise<AzureCredentials> {
  const { now = () => new Date() } = tools;
  try {
    const { status, body } = await send(call, { ...tools, timeout: 3000 });
    const answer = JSON.parse(body.toString()) as Record<string, unknown>;
    if (status !== 200) throw new Error(`${status} ${String(answer.error ?? "")}`.trim());
    const { access_token, expires_in, expires_on } = answer;
    // As a number or as text; which of both depends on who answers.
    const expires =
      expires_on === undefined ? now().getTime() + Number(expires_in) * 1000 : Number(expires_on) * 1000;
    if (typeof access_token !== "string" || !Number.isFinite(expires)) throw new Error("no token");
    return { token: access_token, expires };
  } catch (error) {
    const says = error instanceof SyntaxError ? "its response is not JSON" : String((error as Error).message);
    throw new StorageFailure(`Credentials for the container could not be obtained from ${who} (${says})`, {
      reason: "unavailable",
      detail:
        "Set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or run with an identity that has the role Storage Blob Data Contributor on the container.",
    });
  }
}
