import type { Platform } from "../../../deploy/platform.ts";
import { awsDefaults } from "../aws/aws-config.ts";
import { pipelineLogin } from "../aws/pipeline.ts";
import { checkTag } from "../aws/service-tags.ts";
import { type AppRunnerFlags, AppRunnerFlagsSchema } from "./flags.ts";
import { openSession } from "./session.ts";

const appRunnerPlatform: Platform<AppRunnerFlags> = {
  name: "aws-app-runner",
  defaultRegion: "us-east-1",
  flags: AppRunnerFlagsSchema,
  ephemeralDisk: true,
  withDatabase: { maxInstances: 3, concurrency: 80 },
  proxies: 1,
  // Updates take five minutes on average, failed ones fifteen.
  timeout: 1200,
  checkName: (name) =>
    name.length < 4 || name.length > 40
      ? `App Runner takes 4 to 40 characters, this one has ${name.length}`
      : undefined,
  checkLabel: checkTag,
  defaults: awsDefaults,
  pipeline: (request) => pipelineLogin(request, "apprunner"),
  connect: openSession,
};
export default appRunnerPlatform;
