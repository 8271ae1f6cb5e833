import type { Release } from "../../../deploy/platform.ts";

/** Size of an instance. */
interface Size {
  readonly cpus: number;
  readonly gib: number;
}

/** The size of an instance for people, with units: "0.25 vCPU" and "512 MiB", "2 vCPU" and "4 GiB". */
export function sizeText({ cpus, gib }: Size): { cpu: string; memory: string } {
  return { cpu: `${cpus} vCPU`, memory: gib >= 1 ? `${gib} GiB` : `${gib * 1024} MiB` };
}

/** The size that `sizeText` has written; undefined without one. */
export function readSize({ cpu, memory }: NonNullable<Release["resources"]> = {}): Size | undefined {
  if (cpu === undefined || memory === undefined) return undefined;
  const amount = Number.parseFloat(memory);
  return { cpus: Number.parseFloat(cpu), gib: memory.endsWith("MiB") ? amount / 1024 : amount };
}
