import type { Plugin } from "../../../core/service/plugin.ts";

/** Deploys to AWS ECS Express Mode, which AWS names as the successor of App Runner. */
export const awsEcsExpress: Plugin = {
  name: "aws-ecs-express",
  platforms: { "aws-ecs-express": () => import("./platform.ts") },
};
