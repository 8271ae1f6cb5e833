import type { PlatformLoader } from "../../deploy/platform.ts";
import { appRunner } from "../../plugins/platforms/app-runner/index.ts";
import { awsEcsExpress } from "../../plugins/platforms/aws-ecs-express/index.ts";
import { cloudRun } from "../../plugins/platforms/cloud-run/index.ts";
import { doAppPlatform } from "../../plugins/platforms/do-app-platform/index.ts";
import { server } from "../../plugins/platforms/server/index.ts";

/** The built-in platforms by name, each loaded only when it is used; last the one that takes no new customers. */
export const PLATFORMS: Readonly<Record<string, PlatformLoader>> = {
  ...server.platforms,
  ...cloudRun.platforms,
  ...awsEcsExpress.platforms,
  ...doAppPlatform.platforms,
  ...appRunner.platforms,
};
