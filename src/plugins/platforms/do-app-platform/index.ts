import type { Plugin } from "../../../core/service/plugin.ts";

/** Deploys to DigitalOcean App Platform. */
export const doAppPlatform: Plugin = {
  name: "do-app-platform",
  platforms: { "do-app-platform": () => import("./platform.ts") },
};
