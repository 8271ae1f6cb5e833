import * as v from "valibot";
import { option } from "../../../core/base/option.ts";
import { RoleArnSchema } from "../aws/role-arn.ts";

const tasks = v.pipe(
  v.number(),
  v.integer("must be a whole number"),
  v.minValue(1, "must be at least 1: Express Mode always runs a task"),
  v.maxValue(1000, "must be at most 1000"),
);

/** Options of `--platform aws-ecs-express`. */
export const EcsExpressFlagsSchema = v.object({
  minInstances: v.optional(v.pipe(tasks, v.description("Tasks that always run (1 to 1000)"))),
  maxInstances: v.optional(v.pipe(tasks, v.description("Most tasks that may run (1 to 1000)"))),
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
  taskRole: v.optional(
    v.pipe(RoleArnSchema, v.description("ARN of the role that the agents' own calls to AWS are made with")),
  ),
  executionRole: v.optional(
    v.pipe(
      RoleArnSchema,
      v.description("ARN of the role that starts tasks and reads secrets (default: svc creates one)"),
    ),
  ),
});
export type EcsExpressFlags = v.InferOutput<typeof EcsExpressFlagsSchema>;
