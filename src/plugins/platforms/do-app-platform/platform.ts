import type { Platform } from "../../../deploy/platform.ts";
import { type AppPlatformFlags, AppPlatformFlagsSchema } from "./flags.ts";
import { pipelineLogin } from "./pipeline.ts";
import { openSession } from "./session.ts";

const NAME = /^[a-z][a-z0-9-]{0,30}[a-z0-9]$/;

const appPlatform: Platform<AppPlatformFlags> = {
  name: "do-app-platform",
  defaultRegion: "nyc",
  flags: AppPlatformFlagsSchema,
  ephemeralDisk: true,
  proxies: 1,
  timeout: 900,
  checkName: (name) =>
    NAME.test(name)
      ? undefined
      : `App Platform takes 2 to 32 lower-case letters, digits and hyphens, this one has ${name.length}`,
  pipeline: pipelineLogin,
  connect: openSession,
};
export default appPlatform;
