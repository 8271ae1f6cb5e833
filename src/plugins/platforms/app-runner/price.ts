import type { Estimate, Release } from "../../../deploy/platform.ts";
import { toUnits } from "./configuration.ts";
import type { AppRunnerFlags } from "./flags.ts";

/** US dollars per hour as listed for us-west-2 in 2024; AWS has no price estimate for a service. */
const CPU_HOUR = 0.064;
const GIB_HOUR = 0.007;
const HOURS = 730;

/** Cost per month of the instances that are always ready, and of an additional busy hour. */
export function estimateCost(flags: AppRunnerFlags, live: Release | undefined): Estimate {
  const cpu = Number(toUnits(flags.cpu) ?? live?.resources?.cpu ?? 1024) / 1024;
  const gib = Number(toUnits(flags.memory) ?? live?.resources?.memory ?? 2048) / 1024;
  const ready = (flags.minInstances ?? 1) * gib * GIB_HOUR * HOURS;
  const busy = cpu * CPU_HOUR;
  return {
    cost: `about $${ready.toFixed(2)} a month idle, $${busy.toFixed(2)} more per busy instance hour (estimate from list prices of 2024)`,
    duration: "5 to 10 minutes after the build; the first time twice that, for the public URL",
  };
}
