import type * as v from "valibot";
import { type NamesOf, refuseUnknown } from "../core/base/refuse-unknown.ts";
import type { ResourceAction } from "../core/models/deployment.ts";
import type { DeployTarget, Platform, PlatformFlags, PlatformSession } from "./platform.ts";
import { specChanges } from "./spec-changes.ts";
import type { DeployTools } from "./tools.ts";

/** Session methods that have a default implementation. */
export type WithDefault = "plan" | "imageRef" | "registryLogin" | "scaleToZero";

/** A session that may omit methods with a default: see `definePlatform`. */
export type SessionDefinition = Omit<PlatformSession, WithDefault> &
  Partial<Pick<PlatformSession, WithDefault>>;

/**
 * A platform as it is written down: its options typed by their schema; its session may omit methods with a
 * default.
 */
export interface PlatformDefinition<F extends PlatformFlags>
  extends Omit<Platform<v.InferOutput<F>>, "flags" | "connect"> {
  readonly flags: F;
  connect(
    target: DeployTarget<v.InferOutput<F>>,
    tools: DeployTools,
  ): SessionDefinition | Promise<SessionDefinition>;
}

const NAMES: NamesOf<Platform> = {
  ...{ name: true, defaultRegion: true, flags: true, ephemeralDisk: true, withDatabase: true },
  ...{ splitsTraffic: true, proxies: true, timeout: true, placeOf: true, checkName: true, checkLabel: true },
  ...{ split: true, defaults: true, pipeline: true, connect: true },
};

/**
 * Makes a platform: `connect` gets the options that its schema describes. A session without `plan` plans one
 * service whose image, variables and secrets are compared with the running one; without `imageRef` the image
 * is called `<service>:<tag>`; without `registryLogin` it is pushed without a login; without `scaleToZero`
 * the service is removed without scaling down first.
 */
export function definePlatform<const F extends PlatformFlags>(
  platform: PlatformDefinition<F>,
): Platform<v.InferOutput<F>> {
  refuseUnknown(platform, NAMES, `definePlatform: platform "${platform.name}"`);
  return {
    ...platform,
    async connect(target, tools) {
      const session = await platform.connect(target, tools);
      session.plan ??= async (spec, live) => [
        planService(target, platform.name, specChanges(spec, live), live),
      ];
      session.imageRef ??= (tag) => `${target.serviceName}:${tag}`;
      session.registryLogin ??= async () => undefined;
      session.scaleToZero ??= async () => undefined;
      return session as PlatformSession;
    },
  };
}

function planService(
  { serviceName, region }: Pick<DeployTarget, "serviceName" | "region">,
  platform: string,
  changes: ReturnType<typeof specChanges>,
  live: unknown,
): ResourceAction {
  return {
    resource_type: "service",
    action_type: live === undefined ? "create" : changes.length > 0 ? "update" : "noop",
    resource_name: serviceName,
    description: `on ${platform}, ${region}`,
    cost_estimate: null,
    metadata: { changes },
  };
}
