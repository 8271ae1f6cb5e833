import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import type { Prepared } from "./plan.ts";
import type { SecretPlan } from "./secrets.ts";

const KEY = "SERVICE_API_KEY";

/**
 * Why nobody could use the service after this deployment: its key would be one that the service generates on a disk that does
 * not last, or one that the platform's vault shows to nobody. Undefined if somebody knows its key.
 */
export function unknownKey(
  { platform, session, options }: Pick<Deployment, "platform" | "session" | "options">,
  { values, kept, unlisted, referred, generated }: SecretPlan,
): DeployError | undefined {
  if (!platform.ephemeralDisk) return undefined;
  const { name } = platform;
  const own = `Set ${KEY} to a key of your own, and keep it: export ${KEY}=$(openssl rand -hex 32)`;
  const told = (message: string, detail: string, fix: string) =>
    new DeployError("preflight", message, { detail, outcome: "Nothing was built or released", fix });
  if (generated.includes(KEY))
    return session.readSecret || options.showApiKey
      ? undefined
      : told(
          "API key: nobody could read the generated key",
          `${name} shows no secret again`,
          `${own}. Or add --show-api-key, which prints the generated one before it is stored`,
        );
  const names = [...Object.keys(values), ...[...kept, ...referred].map((one) => one.name), ...unlisted];
  if (names.includes(KEY)) return undefined;
  return told(
    `API key: ${KEY} is missing, and nobody could use the service`,
    `It would generate a key on its own disk, which nobody can read and ${name} wipes`,
    session.readSecret
      ? `Add --generate-api-key (generateApiKey: true in deploy.yaml): the key is stored in the vault. Or set ${KEY} to one of your own`
      : `${own}. Or add --generate-api-key --show-api-key`,
  );
}

/** Rejects, before anything is built, what would end in a service that nobody can use, update or remove. */
export function guardKey(deployment: Deployment, { secrets }: Pick<Prepared, "secrets">): void {
  const problem = unknownKey(deployment, secrets);
  if (problem !== undefined) throw problem;
}
