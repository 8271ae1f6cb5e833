import { countOf } from "../../../core/base/count-of.ts";
import type { Estimate, Release } from "../../../deploy/platform.ts";
import { estimatedFrom, MONTH_HOURS, PRICES } from "../../../deploy/prices.ts";
import { readSize, sizeText } from "../cloud/size-text.ts";
import type { EcsExpressFlags } from "./flags.ts";

/** Cost per month of the tasks that always run, and of the load balancer in front of them. */
export function estimateCost(
  flags: EcsExpressFlags,
  region: string,
  { live, architecture }: { readonly live: Release | undefined; readonly architecture: string },
): Estimate {
  const isArm = architecture === "arm64";
  const cpuPrice = isArm ? PRICES.fargateArmCpu : PRICES.fargateCpu;
  const memoryPrice = isArm ? PRICES.fargateArmMemory : PRICES.fargateMemory;
  const size = readSize(live?.resources) ?? { cpus: 0.25, gib: 0.5 };
  const cpu = flags.cpu === undefined ? size.cpus : Number(flags.cpu) / 1024;
  const gib = flags.memory === undefined ? size.gib : Number(flags.memory) / 1024;
  const count = flags.minInstances ?? 1;
  const tasks = count * (cpu * cpuPrice.usd + gib * memoryPrice.usd) * MONTH_HOURS;
  const balancer = PRICES.loadBalancer.usd * MONTH_HOURS;
  const { cpu: cpus, memory } = sizeText({ cpus: cpu, gib });
  const text = `about $${(tasks + balancer).toFixed(2)} a month: $${tasks.toFixed(2)} for ${countOf(count, "instance")} with ${cpus} and ${memory}, and $${balancer.toFixed(2)} for the load balancer, which up to 25 services share; traffic and public IPv4 addresses are not in it`;
  return {
    cost: estimatedFrom([cpuPrice, memoryPrice, PRICES.loadBalancer], text, region),
    duration: "7 to 10 minutes after the build: ECS watches a new revision for 6 of them",
  };
}
