import type { Estimate } from "../../../deploy/platform.ts";
import type { CloudRunFlags } from "./flags.ts";
import type { Container, ServiceScaling } from "./service-types.ts";
import { idlesBetweenRequests, newScaling, wantedScaling } from "./template.ts";

/**
 * US dollars per second as listed for us-central1 in January 2025; the provider has no price estimate for a
 * service.
 */
const IDLE = 0.0000025;
const BUSY_CPU = 0.000024;
const ALWAYS_CPU = 0.000018;
const ALWAYS_GIB = 0.000002;
const MONTH = 730 * 3600;

/** Cost per month of the instances that always run, and of an additional busy hour. */
export function estimateCost(
  flags: CloudRunFlags,
  live?: { readonly container?: Container; readonly scaling?: ServiceScaling },
): Estimate {
  const cpu = toNumber(flags.cpu ?? live?.container?.resources?.limits?.cpu ?? "1");
  const gib = toGib(flags.memory ?? live?.container?.resources?.limits?.memory ?? "512Mi");
  const scaling = live === undefined ? newScaling(flags) : wantedScaling(flags, live.scaling);
  const least = scaling.minInstanceCount ?? 0;
  const always = flags.scaleToZero
    ? false
    : (flags.alwaysOnCpu ?? !idlesBetweenRequests(live?.container?.resources));
  const perSecond = always ? cpu * ALWAYS_CPU + gib * ALWAYS_GIB : (cpu + gib) * IDLE;
  const base = least * perSecond * MONTH;
  const hour = (cpu * (always ? ALWAYS_CPU : BUSY_CPU) + gib * IDLE) * 3600;
  const mode = always
    ? "CPU around the clock; --scale-to-zero costs almost nothing when idle, but jobs pause between requests"
    : "CPU only during requests";
  return {
    cost: `about $${base.toFixed(2)} a month idle, $${hour.toFixed(2)} per busy instance hour (${mode}; estimate from list prices of January 2025, before the free tier)`,
    duration: "1 to 2 minutes after the build",
  };
}

function toNumber(cpu: string): number {
  return cpu.endsWith("m") ? Number(cpu.slice(0, -1)) / 1000 : Number(cpu);
}

function toGib(memory: string): number {
  const match = /^([\d.]+)(Mi|Gi|M|G)?$/.exec(memory);
  const amount = Number(match?.[1] ?? 0.5);
  if (match?.[2]?.startsWith("M")) return amount / 1024;
  return amount;
}
