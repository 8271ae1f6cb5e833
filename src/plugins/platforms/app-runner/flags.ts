import * as v from "valibot";
import { option } from "../../../core/base/option.ts";
import { ROLE_ARN } from "../aws/role-arn.ts";
import { DOMAIN_OPTION } from "../cloud/domain.ts";
import { instancesOption } from "../cloud/instances-option.ts";

/** Options of `--platform aws-app-runner`. */
export const AppRunnerFlagsSchema = v.object({
  minInstances: instancesOption(
    "Instances that are always ready (1 to 25)",
    1,
    25,
    "App Runner always keeps an instance ready",
  ),
  maxInstances: instancesOption("Most instances that may run (1 to 25)", 1, 25),
  concurrency: option.whole("Requests that an instance answers at the same time (1 to 200)", 1, 200),
  cpu: option.ruled(
    v.regex(
      /^(256|512|1024|2048|4096|(0\.25|0\.5|1|2|4) vCPU)$/,
      'must be one of 256, 512, 1024, 2048, 4096 or "1 vCPU"',
    ),
    "CPU of an instance, such as 1024 (new service: 1024)",
  ),
  memory: option.ruled(
    v.regex(
      /^(512|1024|2048|3072|4096|6144|8192|10240|12288|(0\.5|1|2|3|4|6|8|10|12) GB)$/,
      'must be one of 512 to 12288 or "2 GB"',
    ),
    "Memory of an instance, such as 2048 (new service: 2048)",
  ),
  instanceRole: option.ruled(
    ROLE_ARN,
    "ARN of the role that the service runs with and reads secrets (default: svc creates one)",
  ),
  domain: DOMAIN_OPTION,
  vpcConnector: option.ruled(
    v.regex(
      /^(public$|arn:[\w-]+:apprunner:[\w-]+:\d{12}:vpcconnector\/.)/,
      'must be the ARN of a VPC connector, or "public"',
    ),
    'ARN of the VPC connector that outgoing requests go through; "public" for none',
  ),
});
export type AppRunnerFlags = v.InferOutput<typeof AppRunnerFlagsSchema>;
