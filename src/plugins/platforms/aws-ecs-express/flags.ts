import * as v from "valibot";
import { option } from "../../../core/base/option.ts";
import { ROLE_ARN } from "../aws/role-arn.ts";
import { instancesOption } from "../cloud/instances-option.ts";

const ALWAYS = "Express Mode always runs a task";

/** Options of `--platform aws-ecs-express`. */
export const EcsExpressFlagsSchema = v.object({
  minInstances: instancesOption("Tasks that always run (1 to 1000)", 1, 1000, ALWAYS),
  maxInstances: instancesOption("Most tasks that may run (1 to 1000)", 1, 1000, ALWAYS),
  scaleAtCpu: option.whole("CPU use in percent from which tasks are added (new range: 60)", 1, 100),
  cpu: option.ruled(
    v.picklist(["256", "512", "1024", "2048", "4096", "8192", "16384"]),
    "CPU units of a task (new service: 256)",
  ),
  memory: option.ruled(v.regex(/^\d+$/, "must be a number of MiB"), "MiB of a task (new service: 512)"),
  architecture: option.one(
    ["amd64", "arm64"],
    "Processor of tasks, for which the image is built (new service: amd64)",
  ),
  cluster: v.pipe(option.text("Cluster (default: default)"), v.metadata({ locates: true })),
  subnets: option.ruled(
    v.regex(/^subnet-\w+(\s*,\s*subnet-\w+)*$/, "must be names such as subnet-1a2b, separated by commas"),
    "Subnets, separated by commas, where there is no default VPC",
  ),
  securityGroups: option.ruled(
    v.regex(/^sg-\w+(\s*,\s*sg-\w+)*$/, "must be names such as sg-1a2b, separated by commas"),
    "Security groups of tasks, separated by commas; ECS adds one of its own",
  ),
  taskRole: option.ruled(ROLE_ARN, "ARN of the role that the agents' own calls to AWS are made with"),
  executionRole: option.ruled(
    ROLE_ARN,
    "ARN of the role that starts tasks and reads secrets (default: svc creates one)",
  ),
});
export type EcsExpressFlags = v.InferOutput<typeof EcsExpressFlagsSchema>;
