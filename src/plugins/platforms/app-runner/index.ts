import type { Plugin } from "../../../core/service/plugin.ts";

/** Deploys to AWS App Runner, for accounts that already use it: it is closed to new customers. */
export const appRunner: Plugin = {
  name: "app-runner",
  platforms: {
    "aws-app-runner": () => import("./platform.ts"),
    "app-runner": () => import("./platform.ts"),
  },
};
