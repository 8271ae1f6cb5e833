import type { PlatformLoader } from "../deploy/platform.ts";
import { appRunner } from "./app-runner/index.ts";
import { awsEcsExpress } from "./aws-ecs-express/index.ts";
import { cloudRun } from "./cloud-run/index.ts";
import { doAppPlatform } from "./do-app-platform/index.ts";

/** The built-in platforms by name, each loaded only when it is used. */
export const PLATFORMS: Readonly<Record<string, PlatformLoader>> = {
  ...cloudRun.platforms,
  ...appRunner.platforms,
  ...awsEcsExpress.platforms,
  ...doAppPlatform.platforms,
};
