import * as v from "valibot";
import { option, toFlagName } from "../../../core/base/option.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { DOMAIN_OPTION } from "../cloud/domain.ts";
import { instancesOption } from "../cloud/instances-option.ts";

/** Options of `--platform cloud-run`. */
export const CloudRunFlagsSchema = v.object({
  useCloudBuild: option.choice("Build with Cloud Build instead of on this machine"),
  minInstances: instancesOption("Instances that always run (0 to 1000)", 0, 1000),
  maxInstances: instancesOption("Most instances that may run (1 to 1000)", 1, 1000),
  concurrency: option.whole("Requests that an instance answers at the same time (1 to 1000)", 1, 1000),
  cpu: option.text("CPU of an instance, such as 1 or 2 (new service: 1)"),
  memory: option.text("Memory of an instance, such as 512Mi (new service: 512Mi)"),
  alwaysOnCpu: option.choice(
    "CPU also between requests, so that jobs continue after the response (default for a new service)",
  ),
  scaleToZero: option.choice("Cheap mode: CPU only during requests, no instance in between; jobs pause"),
  serviceAccount: option.text("Email address of the account that the service runs as"),
  requestTimeout: option.whole(
    "Seconds that a request may last, streams included (1 to 3600; new service: 3600)",
    1,
    3600,
  ),
  network: option.text('VPC network of outgoing requests, such as default; "none" for none'),
  subnet: option.text("Subnet of that network (default: its namesake)"),
  vpcEgress: option.one(
    ["all-traffic", "private-ranges-only"],
    "Which requests go through the network: all-traffic, or private-ranges-only (default)",
  ),
  ingress: option.one(
    ["all", "internal", "internal-and-cloud-load-balancing"],
    "Where requests may come from: all (default), internal, or internal-and-cloud-load-balancing",
  ),
  domain: DOMAIN_OPTION,
  private: option.choice("Only callers with the role run.invoker have access"),
  public: option.choice("Anyone may call it (default for a new service)"),
});
export type CloudRunFlags = v.InferOutput<typeof CloudRunFlagsSchema>;

/** Rejects options that contradict each other. */
export function checkFlags(flags: CloudRunFlags): void {
  const pairs: [keyof CloudRunFlags, keyof CloudRunFlags, boolean][] = [
    ["private", "public", flags.private === true && flags.public === true],
    ["scaleToZero", "alwaysOnCpu", flags.scaleToZero === true && flags.alwaysOnCpu === true],
    ["scaleToZero", "minInstances", flags.scaleToZero === true && (flags.minInstances ?? 0) > 0],
    ["network", "subnet", flags.network === "none" && flags.subnet !== undefined],
    ["network", "vpcEgress", flags.network === "none" && flags.vpcEgress !== undefined],
  ];
  const [clash] = pairs.filter(([, , both]) => both);
  if (clash === undefined) return;
  const [one, other] = clash
    .slice(0, 2)
    .map((key) => `--${toFlagName(String(key))}${key === "network" ? " none" : ""}`);
  throw new DeployError("usage", `${one} and ${other} contradict each other`, {
    fix: "Use only one of them",
  });
}
