import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { FlowCloud } from "./clouds.ts";

type Files = Readonly<Record<string, string>>;

/** Writes credentials to where each cloud's own tools keep them, and gives the variables that lead to the emulator. */
export function logIn(home: string, platform: string, cloud: FlowCloud): Record<string, string> {
  for (const [file, text] of Object.entries(filesOf(platform, cloud))) {
    mkdirSync(dirname(join(home, file)), { recursive: true });
    writeFileSync(join(home, file), text.replaceAll("HOME", home), { mode: 0o600 });
  }
  // What is left of the variables are the addresses.
  const addresses = Object.entries(cloud.env).filter(([, value]) => value.startsWith("http"));
  return Object.fromEntries(addresses);
}

function filesOf(platform: string, { env }: FlowCloud): Files {
  if (platform === "cloud-run")
    return {
      ".config/gcloud/configurations/config_default":
        "[core]\nproject = demo-project\n[run]\nregion = us-central1\n",
      ".config/gcloud/subject": "a token of another cloud",
      ".config/gcloud/application_default_credentials.json": JSON.stringify({
        type: "external_account",
        audience: "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/pool/providers/ci",
        subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
        token_url: `${env.CLOUDSDK_API_ENDPOINT_OVERRIDES_STS}v1/token`,
        credential_source: { file: "HOME/.config/gcloud/subject" },
      }),
    };
  if (platform === "do-app-platform")
    return {
      ".config/doctl/config.yaml": `access-token: ${env.DIGITALOCEAN_ACCESS_TOKEN}\ncontext: default\n`,
    };
  const { AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY } = env;
  return {
    ".aws/config": "[default]\nregion = us-east-1\n",
    ".aws/credentials": `[default]\naws_access_key_id = ${AWS_ACCESS_KEY_ID}\naws_secret_access_key = ${AWS_SECRET_ACCESS_KEY}\n`,
  };
}
