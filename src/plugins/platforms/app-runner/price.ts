import { countOf } from "../../../core/base/count-of.ts";
import type { Estimate, Release } from "../../../deploy/platform.ts";
import { estimatedFrom, MONTH_HOURS, PRICES } from "../../../deploy/prices.ts";
import { readSize, sizeText } from "../cloud/size-text.ts";
import { toUnits } from "./configuration.ts";
import type { AppRunnerFlags } from "./flags.ts";

/** Cost per month of the instances that are always ready, and of an additional busy hour. */
export function estimateCost(flags: AppRunnerFlags, region: string, live: Release | undefined): Estimate {
  const { appRunnerCpu, appRunnerMemory } = PRICES;
  const size = readSize(live?.resources) ?? { cpus: 1, gib: 2 };
  const cpu = flags.cpu === undefined ? size.cpus : Number(toUnits(flags.cpu)) / 1024;
  const gib = flags.memory === undefined ? size.gib : Number(toUnits(flags.memory)) / 1024;
  const { cpu: cpus, memory } = sizeText({ cpus: cpu, gib });
  const count = flags.minInstances ?? 1;
  const ready = count * gib * appRunnerMemory.usd * MONTH_HOURS;
  const busy = cpu * appRunnerCpu.usd;
  const text = `about $${ready.toFixed(2)} a month for ${countOf(count, "instance")} with ${cpus} and ${memory} idle, $${busy.toFixed(2)} more for each hour that an instance answers requests`;
  return {
    cost: estimatedFrom([appRunnerCpu, appRunnerMemory], text, region),
    duration: "5 to 10 minutes after the build; the first time twice that, for the public URL",
  };
}
