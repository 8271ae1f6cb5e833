import { type IgnoreRules, parseIgnore } from "./dockerignore.ts";

/** File names of credentials in projects, as lines of a `.dockerignore`. */
export const CREDENTIAL_NAMES: readonly string[] = [
  // Variables
  "**/.env",
  "**/.env.*",
  "**/.envrc",
  "**/*.env",
  ...["example", "sample", "template", "dist", "defaults"].flatMap((word) => [
    `!**/.env.${word}`,
    `!**/${word}.env`,
  ]),
  // Keys
  "**/*.key",
  "**/*.pem",
  "**/*.p12",
  "**/*.pfx",
  "**/*.jks",
  "**/*.keystore",
  "**/*.ppk",
  "**/*.kdbx",
  "**/id_rsa*",
  "**/id_dsa*",
  "**/id_ecdsa*",
  "**/id_ed25519*",
  // Logins
  "**/.netrc",
  "**/.htpasswd",
  "**/.boto",
  "**/.s3cfg",
  "**/.vault-token",
  "**/.dockercfg",
  "**/client_secret*.json",
  "**/_netrc",
  "**/.git-credentials",
  "**/.pgpass",
  "**/.pypirc",
  "**/.ssh",
  "**/.gnupg",
  "**/.aws",
  "**/.azure",
  "**/.kube",
  "**/.config/gcloud",
  "**/.docker/config.json",
  "**/gha-creds-*.json",
  "**/*service-account*.json",
  "**/*service_account*.json",
  "**/*credentials*.json",
  // Terraform keeps every value that it knows in its state.
  "**/.terraform",
  "**/*.tfstate*",
  "**/*.tfvars",
  "**/*.tfvars.json",
  // Keys that a service generated for itself
  "**/api-key",
  "**/rsa-private-key.pem",
];

/** Which files are credentials by their name, in upper or lower case. */
export function credentialNames(): IgnoreRules {
  return parseIgnore(CREDENTIAL_NAMES.join("\n"), { ignoreCase: true });
}
