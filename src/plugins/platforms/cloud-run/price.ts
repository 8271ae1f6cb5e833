import type { Estimate } from "../../../deploy/platform.ts";
import { estimatedFrom, MONTH_HOURS, PRICES } from "../../../deploy/prices.ts";
import type { CloudRunFlags } from "./flags.ts";
import type { Container, ServiceScaling } from "./service-types.ts";
import { idlesBetweenRequests, newScaling, wantedScaling } from "./template.ts";

const { cloudRunCpu, cloudRunMemory, cloudRunBusyCpu, cloudRunBusyMemory, cloudRunIdle } = PRICES;
const HOUR = 3600;

/** Cost per month of the instances that always run, and of an additional busy hour. */
export function estimateCost(
  flags: CloudRunFlags,
  region: string,
  live?: { readonly container?: Container; readonly scaling?: ServiceScaling },
): Estimate {
  const { cpu: liveCpu, memory: liveMemory } = live?.container?.resources?.limits ?? {};
  const { cpus, gib } = sizeOf({ cpu: flags.cpu ?? liveCpu, memory: flags.memory ?? liveMemory });
  const scaling = live === undefined ? newScaling(flags) : wantedScaling(flags, live.scaling);
  const least = scaling.minInstanceCount ?? 0;
  const always = flags.scaleToZero
    ? false
    : (flags.alwaysOnCpu ?? !idlesBetweenRequests(live?.container?.resources));
  const ready = always
    ? (cpus * cloudRunCpu.usd + gib * cloudRunMemory.usd) * HOUR
    : (cpus + gib) * cloudRunIdle.usd * HOUR;
  const busy = (cpus * cloudRunBusyCpu.usd + gib * cloudRunBusyMemory.usd) * HOUR;
  const month = (least * ready * MONTH_HOURS).toFixed(2);
  const text = always
    ? `about $${month} a month for ${instances(least)} around the clock, $${ready.toFixed(2)} for each hour of a further one, before the free tier; --scale-to-zero costs almost nothing when idle, but jobs pause between requests`
    : `about $${month} a month idle, $${busy.toFixed(2)} for each hour that an instance answers requests, before the free tier`;
  return {
    cost: estimatedFrom(
      always ? [cloudRunCpu, cloudRunMemory] : [cloudRunBusyCpu, cloudRunIdle],
      text,
      region,
    ),
    duration: "1 to 2 minutes after the build",
  };
}

const instances = (count: number): string => (count === 1 ? "one instance" : `${count} instances`);

/** Processors and memory of an instance, from limits as Cloud Run writes them; what is missing is its default. */
export function sizeOf({
  cpu = "1",
  memory = "512Mi",
}: {
  cpu?: string | undefined;
  memory?: string | undefined;
} = {}) {
  const [, amount = "0.5", unit = "G"] = /^([\d.]+)(Mi|Gi|M|G)?$/.exec(memory) ?? [];
  return {
    cpus: cpu.endsWith("m") ? Number(cpu.slice(0, -1)) / 1000 : Number(cpu),
    gib: Number(amount) / (unit.startsWith("M") ? 1024 : 1),
  };
}
