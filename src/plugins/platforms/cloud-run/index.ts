import type { Plugin } from "../../../core/service/plugin.ts";

/** Deploys to Google Cloud Run. */
export const cloudRun: Plugin = {
  name: "cloud-run",
  platforms: { "cloud-run": () => import("./platform.ts") },
};
