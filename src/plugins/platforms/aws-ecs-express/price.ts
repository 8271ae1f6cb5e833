import type { Estimate, Release } from "../../../deploy/platform.ts";
import type { EcsExpressFlags } from "./flags.ts";

/** US dollars per hour as listed for us-east-1 in January 2025; AWS has no price estimate for a service. */
const CPU_HOUR = 0.04048;
const GIB_HOUR = 0.004445;
const BALANCER_HOUR = 0.0225;
const HOURS = 730;

/** Cost per month of the tasks that always run, and of the load balancer in front of them. */
export function estimateCost(flags: EcsExpressFlags, live: Release | undefined): Estimate {
  const cpu = Number(flags.cpu ?? (live?.resources?.cpu || 256)) / 1024;
  const gib = Number(flags.memory ?? (live?.resources?.memory || 512)) / 1024;
  const tasks = (flags.minInstances ?? 1) * (cpu * CPU_HOUR + gib * GIB_HOUR) * HOURS;
  const balancer = BALANCER_HOUR * HOURS;
  return {
    cost: `about $${(tasks + balancer).toFixed(2)} a month, $${balancer.toFixed(2)} of it for the load balancer, which up to 25 services share (estimate from list prices of January 2025)`,
    duration: "7 to 10 minutes after the build: ECS watches a new revision for 6 of them",
  };
}
