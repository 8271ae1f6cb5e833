import { DeployError } from "../../core/deploy/errors.ts";
import type { DeployTools } from "../../core/deploy/tools.ts";
import { credentialsFile, readGcloudConfig } from "./gcloud-config.ts";

/** Who the calls are made as. */
export interface GoogleIdentity {
  /** Where the credentials were found, for people. */
  readonly source: string;
  /** Project that the calls are counted against, where it is not the one they are about. */
  readonly quotaProject: string | undefined;
  token(): Promise<string>;
  /** A token that proves who calls a service which is not public; nothing where these credentials cannot make one. */
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
      token: async () => given,
      idToken: () => gcloudIdToken(tools),
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
  const client = await auth.getClient().catch((error: unknown) => {
    throw noCredentials(error);
  });
  return {
    source,
    quotaProject: tools.env.GOOGLE_CLOUD_QUOTA_PROJECT ?? client.quotaProjectId,
    async token() {
      const { token } = await client.getAccessToken().catch((error: unknown) => {
        throw noCredentials(error);
      });
      if (!token) throw noCredentials(undefined);
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
        // A person's own login cannot make one; gcloud can.
        return gcloudIdToken(tools);
      }
    },
  };
}

async function gcloudIdentity(tools: DeployTools, account: string): Promise<GoogleIdentity> {
  let kept: { readonly value: string; readonly until: number } | undefined;
  return {
    source: `gcloud login of ${account}`,
    quotaProject: tools.env.GOOGLE_CLOUD_QUOTA_PROJECT,
    async token() {
      if (kept && kept.until > tools.now().getTime()) return kept.value;
      const { code, stdout, stderr } = await tools.exec("gcloud", ["auth", "print-access-token"]);
      if (code !== 0) throw noCredentials(new Error(stderr.trim().split("\n").at(-1)));
      const value = stdout.trim();
      tools.redact(value);
      kept = { value, until: tools.now().getTime() + 10 * 60_000 };
      return value;
    },
    idToken: () => gcloudIdToken(tools),
  };
}

async function gcloudIdToken(tools: DeployTools): Promise<string | undefined> {
  try {
    const { code, stdout } = await tools.exec("gcloud", ["auth", "print-identity-token"]);
    if (code !== 0) return undefined;
    tools.redact(stdout.trim());
    return stdout.trim();
  } catch {
    // Without gcloud the check of a private service is made without a token, and its 403 tells so.
    return undefined;
  }
}

function noCredentials(cause: unknown): DeployError {
  return new DeployError("preflight", "No usable Google credentials were found", {
    detail: cause instanceof Error ? cause.message : undefined,
    fix: "Log in with: gcloud auth application-default login (or set GOOGLE_APPLICATION_CREDENTIALS to a key file)",
    cause,
  });
}
