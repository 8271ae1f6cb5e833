import type { Plugin } from "../../../core/service/plugin.ts";

const load = () => import("./platform.ts");

/** Deploys to AWS App Runner, for accounts that already use it: it is closed to new customers. */
export const appRunner: Plugin = {
  name: "app-runner",
  platforms: {
    "aws-app-runner": load,
    // Its former name.
    "app-runner": load,
  },
};
