import type { DeployTools } from "../../../deploy/tools.ts";
import { checkEndpoint } from "../cloud/endpoint.ts";

/**
 * A token that identifies an account to a service that is not public, issued for its access token; undefined for what
 * is not a service account, or may not issue tokens in its own name (`roles/iam.serviceAccountOpenIdTokenCreator`).
 */
export async function issuedIdToken(
  tools: DeployTools,
  accessToken: string,
  audience: string,
): Promise<string | undefined> {
  try {
    const account =
      tools.env.CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT || (await accountOf(tools, accessToken));
    if (!account?.endsWith(".gserviceaccount.com")) return undefined;
    const variable = "CLOUDSDK_API_ENDPOINT_OVERRIDES_IAMCREDENTIALS";
    const own = tools.env[variable];
    const endpoint = own ? checkEndpoint(own, variable) : "https://iamcredentials.googleapis.com";
    const path = `/v1/projects/-/serviceAccounts/${encodeURIComponent(account)}:generateIdToken`;
    const { token } = await post<{ token?: string }>(tools, `${endpoint}${path}`, {
      headers: { authorization: `Bearer ${accessToken}`, "content-type": "application/json" },
      body: JSON.stringify({ audience, includeEmail: true }),
    });
    if (token !== undefined) tools.redact(token);
    return token;
  } catch {
    tools.signal.throwIfAborted();
    return undefined;
  }
}

/** Whose token it is. In the body: addresses are logged. */
async function accountOf(tools: DeployTools, accessToken: string): Promise<string | undefined> {
  const variable = "CLOUDSDK_AUTH_TOKEN_HOST";
  const own = tools.env[variable];
  const host = own ? checkEndpoint(own, variable) : "https://oauth2.googleapis.com/token";
  const { email } = await post<{ email?: string }>(tools, new URL("tokeninfo", host).href, {
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: new URLSearchParams({ access_token: accessToken }).toString(),
  });
  return email;
}

async function post<T>(
  tools: DeployTools,
  url: string,
  request: { readonly headers: Record<string, string>; readonly body: string },
): Promise<T> {
  const response = await tools.fetch(url, {
    ...request,
    method: "POST",
    signal: AbortSignal.timeout(10_000),
  });
  if (!response.ok) throw new Error(`answered ${response.status}`);
  return (await response.json()) as T;
}

/** An identity token of the account that gcloud is logged in with. */
export async function gcloudIdToken(tools: DeployTools): Promise<string | undefined> {
  try {
    const { code, stdout } = await tools.exec("gcloud", ["auth", "print-identity-token"]);
    if (code !== 0) return undefined;
    tools.redact(stdout.trim());
    return stdout.trim();
  } catch {
    // Without gcloud, a private service is checked without a token, and its 403 shows that.
    return undefined;
  }
}

/** The identity of the machine that this runs on, if it is one of Google's. */
export async function metadataIdToken(tools: DeployTools, audience: string): Promise<string | undefined> {
  const host = tools.env.GCE_METADATA_HOST ?? "metadata.google.internal";
  const path = "computeMetadata/v1/instance/service-accounts/default/identity";
  try {
    const response = await tools.fetch(`http://${host}/${path}?audience=${encodeURIComponent(audience)}`, {
      headers: { "metadata-flavor": "Google" },
      signal: AbortSignal.timeout(3000),
    });
    const token = (await response.text()).trim();
    if (!response.ok || token.split(".").length !== 3) return undefined;
    tools.redact(token);
    return token;
  } catch {
    // Not a Google machine: there is no metadata server.
    tools.signal.throwIfAborted();
    return undefined;
  }
}
