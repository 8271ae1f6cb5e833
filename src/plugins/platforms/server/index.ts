import type { Plugin } from "../../../core/service/plugin.ts";

/** Deploys to a machine of one's own, over ssh. */
export const server: Plugin = {
  name: "server",
  platforms: { server: () => import("./platform.ts") },
};
