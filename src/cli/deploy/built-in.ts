import type { PlatformLoader } from "../../deploy/platform.ts";
import { appRunner } from "../../platforms/app-runner/index.ts";
import { awsEcsExpress } from "../../platforms/aws-ecs-express/index.ts";
import { cloudRun } from "../../platforms/cloud-run/index.ts";
import { doAppPlatform } from "../../platforms/do-app-platform/index.ts";
import { server } from "../../platforms/server/index.ts";

/** The built-in platforms by name, each loaded only when it is used. */
export const PLATFORMS: Readonly<Record<string, PlatformLoader>> = {
  ...cloudRun.platforms,
  ...appRunner.platforms,
  ...awsEcsExpress.platforms,
  ...doAppPlatform.platforms,
  ...server.platforms,
};
