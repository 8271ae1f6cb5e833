import type { Platform } from "../../../deploy/platform.ts";
import { awsDefaults } from "../aws/aws-config.ts";
import { pipelineLogin } from "../aws/pipeline.ts";
import { checkTag } from "../aws/service-tags.ts";
import { type EcsExpressFlags, EcsExpressFlagsSchema } from "./flags.ts";
import { openSession } from "./session.ts";

const LONGEST_NAME = 40;

const ecsExpressPlatform: Platform<EcsExpressFlags> = {
  name: "aws-ecs-express",
  defaultRegion: "us-east-1",
  flags: EcsExpressFlagsSchema,
  ephemeralDisk: true,
  splitsTraffic: true,
  withDatabase: { maxInstances: 3, scaleAtCpu: 60 },
  proxies: 1,
  // A good update is watched for six minutes before it counts as successful.
  timeout: 1200,
  checkName: (name) =>
    name.length > LONGEST_NAME
      ? `the roles made for it take at most ${LONGEST_NAME} characters, this one has ${name.length}`
      : undefined,
  checkLabel: checkTag,
  defaults: awsDefaults,
  pipeline: (request) => pipelineLogin(request, "ecs"),
  connect: openSession,
};
export default ecsExpressPlatform;
