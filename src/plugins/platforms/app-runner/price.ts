import type { Estimate, Release } from "../../../deploy/platform.ts";
import { estimatedFrom, MONTH_HOURS, PRICES } from "../../../deploy/prices.ts";
import { toUnits } from "./configuration.ts";
import type { AppRunnerFlags } from "./flags.ts";

/** Cost per month of the instances that are always ready, and of an additional busy hour. */
export function estimateCost(flags: AppRunnerFlags, region: string, live: Release | undefined): Estimate {
  const { appRunnerCpu, appRunnerMemory } = PRICES;
  const cpu = Number(toUnits(flags.cpu) ?? live?.resources?.cpu ?? 1024) / 1024;
  const gib = Number(toUnits(flags.memory) ?? live?.resources?.memory ?? 2048) / 1024;
  const ready = (flags.minInstances ?? 1) * gib * appRunnerMemory.usd * MONTH_HOURS;
  const busy = cpu * appRunnerCpu.usd;
  const text = `about $${ready.toFixed(2)} a month idle, $${busy.toFixed(2)} more for each hour that an instance answers requests`;
  return {
    cost: estimatedFrom([appRunnerCpu, appRunnerMemory], text, region),
    duration: "5 to 10 minutes after the build; the first time twice that, for the public URL",
  };
}
