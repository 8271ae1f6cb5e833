import { DeployError } from "../../../deploy/errors.ts";
import type { RegistryAuth } from "../../../deploy/platform.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import type { Context, RegistryChoice } from "./context.ts";
import { type DigitalOcean, RENEW } from "./digitalocean.ts";
import type { AppPlatformFlags } from "./flags.ts";
import { registryRegion } from "./regions.ts";

export const REGISTRY_HOST = "registry.digitalocean.com";
/** A login without a lifetime never expires. */
const LOGIN_SECONDS = 1800;

/**
 * Chooses among the registries of the account. The older API for a single registry refuses accounts with
 * several.
 */
export async function chooseRegistry(api: DigitalOcean, flags: AppPlatformFlags): Promise<RegistryChoice> {
  const { registries = [] } = await api.get<{ registries?: { name: string }[] }>("/v2/registries");
  const names = registries.map(({ name }) => name);
  if (flags.registry !== undefined) return { name: flags.registry, exists: names.includes(flags.registry) };
  const [only] = names;
  if (only !== undefined && names.length === 1) return { name: only, exists: true };
  if (only !== undefined)
    return {
      name: "",
      exists: true,
      problem: new DeployError("preflight", "The account has several container registries", {
        detail: names.join(", "),
        fix: `Choose one with --registry, such as --registry ${only}`,
      }),
    };
  const { account } = await api.get<{ account: { uuid: string } }>("/v2/account");
  // Registry names are global; the account's id makes this one unique.
  return { name: `svc-${account.uuid.replaceAll("-", "").slice(0, 12)}`, exists: false };
}

export function imageName({ registry, target }: Context, reference: string): string {
  if (registry.problem) throw registry.problem;
  const glue = reference.startsWith("sha256:") ? "@" : ":";
  return `${REGISTRY_HOST}/${registry.name}/${target.serviceName}${glue}${reference}`;
}

/** Creates the registry if the account has none. It is never removed: all apps of the account share it. */
export async function ensureRegistry(context: Context): Promise<void> {
  const { api, registry, target, tools } = context;
  if (registry.problem) throw registry.problem;
  const find = () => api.find<{ registry: { name: string } }>(`/v2/registries/${registry.name}`);
  if (registry.exists || (await find()) !== undefined) return;
  await tools.journal({ step: "registry.create", data: { name: registry.name } }, async () => {
    try {
      await api.send("POST", "/v2/registries", {
        body: {
          name: registry.name,
          subscription_tier_slug: target.flags.registryTier ?? "starter",
          region: registryRegion(target.region),
        },
        reread: find,
      });
    } catch (error) {
      if (!(error instanceof CloudError) || error.status !== 409) throw error;
      throw new DeployError("failed", `The registry name "${registry.name}" is already in use`, {
        detail: error.message,
        fix: "Choose another with --registry",
      });
    }
  });
}

/** A login that expires after half an hour; none to read from a registry that does not exist. */
export async function registryLogin(context: Context, use?: "read"): Promise<RegistryAuth | undefined> {
  if (use === undefined) await ensureRegistry(context);
  else if (!context.registry.exists) return undefined;
  const path = `/v2/registries/${context.registry.name}/docker-credentials`;
  const { auths } = await context.api.get<{ auths: Record<string, { auth: string }> }>(path, {
    read_write: use === undefined,
    expiry_seconds: LOGIN_SECONDS,
  });
  const login = Buffer.from(auths[REGISTRY_HOST]?.auth ?? "", "base64").toString("utf8");
  const colon = login.indexOf(":");
  const password = login.slice(colon + 1);
  context.tools.redact(password);
  return { registry: REGISTRY_HOST, username: login.slice(0, colon), password, renew: RENEW };
}
