import { listSecrets, readSecret } from "../aws/secrets.ts";
import { imageConfiguration, liveVersions, wantedVersions } from "./configuration.ts";
import type { Context } from "./context.ts";
import { findOwnService } from "./services.ts";

/**
 * The value of a secret that the service runs with. App Runner reads values when it deploys, and its references name no version:
 * where others have been stored since, it is the one before.
 */
export async function readRunningSecret(context: Context, name: string): Promise<string | undefined> {
  const service = await findOwnService(context);
  const names = Object.keys((service && imageConfiguration(service).RuntimeEnvironmentSecrets) ?? {});
  const stored = (await listSecrets(context)).filter((secret) => names.includes(secret.name));
  const secrets = Object.fromEntries(names.map((one) => [one, stored.find((secret) => secret.name === one)]));
  const isReleased = service === undefined || liveVersions(service) === wantedVersions({ secrets });
  const before = isReleased ? undefined : await readSecret(context, name, { VersionStage: "AWSPREVIOUS" });
  return before ?? readSecret(context, name);
}
