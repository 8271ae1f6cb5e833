import type { DeployTarget, Estimate, PlatformSession, SecretRef } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { secretRef } from "./app-spec.ts";
import { findOwnApp, listApps } from "./apps.ts";
import type { Context } from "./context.ts";
import { findToken } from "./credentials.ts";
import { DigitalOcean } from "./digitalocean.ts";
import type { AppPlatformFlags } from "./flags.ts";
import { appLogs } from "./logs.ts";
import { planRelease, proposedCost, storedSecrets } from "./plan.ts";
import { preflight } from "./preflight.ts";
import { chooseRegistry, ensureRegistry, imageName, registryLogin } from "./registry.ts";
import { releaseApp } from "./release.ts";
import { activeRelease } from "./release-of.ts";
import { archiveApp, removeApp } from "./remove.ts";
import { deploymentHistory, rollbackApp } from "./rollback.ts";

/** The address that App Platform fills in when the service starts: usable by name before the app exists. */
const OWN_URL = "$" + "{APP_URL}";

/** A price that DigitalOcean has just given. */
function ownPrice(usd: number, now: Date): NonNullable<Estimate["cost"]> {
  return {
    text: `$${usd.toFixed(2)} a month, DigitalOcean's own price`,
    date: now.toISOString().slice(0, 10),
    source: "https://www.digitalocean.com/pricing/app-platform",
  };
}

/** One target on App Platform. */
export async function openSession(
  target: DeployTarget<AppPlatformFlags>,
  tools: DeployTools,
): Promise<PlatformSession> {
  const token = findToken(tools.env);
  const api = new DigitalOcean(tools, token.value);
  const registry = await chooseRegistry(api, target.flags);
  const context: Context = {
    target,
    tools,
    api,
    tokenSource: token.source,
    registry,
    given: new Map(),
    base: {},
  };
  return {
    preflight: () => preflight(context),
    async inspect() {
      const app = await findOwnApp(context);
      return app === undefined ? undefined : activeRelease(context, app);
    },
    environments: () => listApps(context),
    listSecrets: async () => storedSecrets(await findOwnApp(context)),
    plan(spec, live) {
      context.base.deployment = live?.revision ?? "";
      return planRelease(context, spec, live);
    },
    async estimate(spec) {
      const cost = await proposedCost(context, spec);
      return {
        ...(cost === undefined ? {} : { cost: ownPrice(cost, tools.now()) }),
        duration: "2 to 5 minutes after the build",
      };
    },
    predictUrl: async () => OWN_URL,
    prepare: () => ensureRegistry(context),
    takesImage: (ref) =>
      ref.startsWith(`${imageName(context, "")}`.replace(/:$/, "@"))
        ? undefined
        : `App Platform takes images of the service's own repository: ${imageName(context, "").replace(/:$/, "")}`,
    imageRef: (tag) => imageName(context, tag),
    registryLogin: (use) => registryLogin(context, use),
    async putSecrets(values) {
      const refs: Record<string, SecretRef> = {};
      for (const [name, value] of Object.entries(values)) {
        tools.redact(value.value);
        context.given.set(name, value);
        refs[name] = { name, ref: secretRef(name, value.hash) };
      }
      return refs;
    },
    async release(spec) {
      const made = await releaseApp(context, spec);
      context.base.deployment = made.revision ?? "";
      return made;
    },
    async rollback(to) {
      const back = await rollbackApp(context, to);
      context.base.deployment = back.revision ?? "";
      return back;
    },
    history: () => deploymentHistory(context),
    scaleToZero: () => archiveApp(context),
    remove: () => removeApp(context),
    endsSecrets: true,
    async dropSecrets(names) {
      // Secrets are part of the app's spec: removed with it, or with the next spec that lacks them.
      for (const name of names) context.given.delete(name);
    },
    async *logs({ follow }) {
      const app = await findOwnApp(context);
      if (app?.active_deployment)
        yield* appLogs(context, { appId: app.id, id: app.active_deployment.id }, follow);
    },
  };
}
