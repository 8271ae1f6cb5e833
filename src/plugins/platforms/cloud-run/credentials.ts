import { DeployError } from "../../../deploy/errors.ts";
import { networkCode, unreachable } from "../../../deploy/network.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { credentialsFile, readGcloudConfig } from "./gcloud-config.ts";
import { gcloudIdToken, issuedIdToken, metadataIdToken } from "./id-token.ts";

/** The identity that calls are made as. */
export interface GoogleIdentity {
  /** Where the credentials were found, as text. */
  readonly source: string;
  /** Quota project of the calls, if it is not the target project. */
  readonly quotaProject: string | undefined;
  /** What to do if the login is no longer accepted. */
  readonly renew: string;
  token(): Promise<string>;
  /**
   * A token that identifies the caller to a service that is not public; undefined if these credentials cannot
   * issue one.
   */
  idToken(audience: string): Promise<string | undefined>;
}

type AuthLibrary = typeof import("google-auth-library");
const SCOPE = "https://www.googleapis.com/auth/cloud-platform";

/** Finds credentials: a token in the environment, application default credentials, gcloud's login, the metadata server. */
export async function findIdentity(tools: DeployTools): Promise<GoogleIdentity> {
  const quotaProject = tools.env.GOOGLE_CLOUD_QUOTA_PROJECT;
  const given = tools.env.CLOUDSDK_AUTH_ACCESS_TOKEN;
  if (given) {
    tools.redact(given);
    return {
      source: "access token in CLOUDSDK_AUTH_ACCESS_TOKEN",
      quotaProject,
      renew:
        "Put a new token into CLOUDSDK_AUTH_ACCESS_TOKEN (gcloud auth print-access-token), or unset it and log in with: gcloud auth application-default login",
      token: async () => given,
      idToken: async (audience) =>
        (await issuedIdToken(tools, given, audience)) ??
        (await gcloudIdToken(tools)) ??
        metadataIdToken(tools, audience),
    };
  }
  const file = credentialsFile(tools.env);
  const account = readGcloudConfig(tools.env).values["core/account"];
  if (file === undefined && account !== undefined) return gcloudIdentity(tools, account);
  return libraryIdentity(tools, file?.value, file?.source ?? "metadata server");
}

async function libraryIdentity(
  tools: DeployTools,
  keyFile: string | undefined,
  source: string,
): Promise<GoogleIdentity> {
  const { GoogleAuth } = await tools.importPeer<AuthLibrary>("google-auth-library");
  const auth = new GoogleAuth({ scopes: [SCOPE], ...(keyFile === undefined ? {} : { keyFile }) });
  const client = await quietly(() => auth.getClient()).catch((error: unknown) => {
    throw noCredentials(tools, error);
  });
  return {
    source,
    renew: LOGIN,
    quotaProject: tools.env.GOOGLE_CLOUD_QUOTA_PROJECT ?? client.quotaProjectId,
    async token() {
      const { token } = await client.getAccessToken().catch((error: unknown) => {
        throw noCredentials(tools, error);
      });
      if (!token) throw noCredentials(tools, undefined);
      tools.redact(token);
      return token;
    },
    async idToken(audience) {
      try {
        const caller = await auth.getIdTokenClient(audience);
        const token = await caller.idTokenProvider.fetchIdToken(audience);
        tools.redact(token);
        return token;
      } catch {
        // A login of a person, or of a pipeline, issues none by itself.
        const { token } = await client.getAccessToken().catch(() => ({ token: undefined }));
        if (token) tools.redact(token);
        return (token ? await issuedIdToken(tools, token, audience) : undefined) ?? gcloudIdToken(tools);
      }
    },
  };
}

async function gcloudIdentity(tools: DeployTools, account: string): Promise<GoogleIdentity> {
  let kept: { readonly value: string; readonly until: number } | undefined;
  return {
    source: `gcloud login of ${account}`,
    renew: "Log in with: gcloud auth login",
    quotaProject: tools.env.GOOGLE_CLOUD_QUOTA_PROJECT,
    async token() {
      if (kept && kept.until > tools.now().getTime()) return kept.value;
      const { code, stdout, stderr } = await tools.exec("gcloud", ["auth", "print-access-token"]);
      if (code !== 0) throw noCredentials(tools, new Error(stderr.trim().split("\n").at(-1)));
      const value = stdout.trim();
      tools.redact(value);
      kept = { value, until: tools.now().getTime() + 10 * 60_000 };
      return value;
    },
    idToken: () => gcloudIdToken(tools),
  };
}

const LOGIN =
  "Log in with: gcloud auth application-default login (or set GOOGLE_APPLICATION_CREDENTIALS to a key file)";

/** Without the warning that its metadata lookup writes on every other machine. */
async function quietly<T>(search: () => Promise<T>): Promise<T> {
  const emit = process.emitWarning;
  process.emitWarning = ((warning: string, ...rest: never[]) => {
    if (rest[0] !== "MetadataLookupWarning") emit.call(process, warning, ...rest);
  }) as typeof process.emitWarning;
  try {
    return await search();
  } finally {
    process.emitWarning = emit;
  }
}

function noCredentials(tools: DeployTools, cause: unknown): DeployError {
  if (networkCode(cause) !== undefined) return unreachable(tools, "https://oauth2.googleapis.com", cause);
  return new DeployError("preflight", "No usable Google credentials were found", {
    detail: cause instanceof Error ? cause.message : undefined,
    fix: LOGIN,
    cause,
  });
}
