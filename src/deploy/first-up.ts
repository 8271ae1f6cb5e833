import { DATABASE_URL } from "./config.ts";
import type { Deployment } from "./deployment.ts";

/**
 * The command that deploys a service which does not run. It has the options that make the keys that nobody has given, where a
 * deployment without them is refused or ends in a service that nobody can use, and those by which it has what an earlier one left.
 */
export async function firstUp({
  platform,
  session,
  options,
  config,
  tools,
}: Pick<Deployment, "platform" | "session" | "options" | "config" | "tools">): Promise<string> {
  const stored = (await session.listSecrets()).map(({ name }) => name);
  const isKnown = (name: string) =>
    stored.includes(name) ||
    config.secrets.some((secret) => secret.name === name) ||
    Boolean(tools.env[name]);
  const words = ["svc deploy up"];
  if (!isKnown("SERVICE_API_KEY")) {
    if (!options.generateApiKey) words.push("--generate-api-key");
    if (!session.readSecret && !options.showApiKey) words.push("--show-api-key");
  }
  // A service generates an RSA key for itself, which must be where its jobs are.
  const leavesDisk =
    platform.ephemeralDisk === true ||
    options.storage !== undefined ||
    isKnown(DATABASE_URL) ||
    typeof (await session.ownDatabase?.()) === "function";
  // Without them, it would be refused, or start without the jobs of the earlier one.
  words.push(...((await session.optionsOfLeft?.()) ?? []));
  if (leavesDisk && !options.generateRsa && !isKnown("SERVICE_RSA_PRIVATE_KEY")) words.push("--generate-rsa");
  return words.join(" ");
}
