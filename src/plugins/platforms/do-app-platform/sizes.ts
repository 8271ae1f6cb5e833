import type { DigitalOcean } from "./digitalocean.ts";

/** A size of instances. */
export interface Size {
  readonly slug: string;
  readonly scalable?: boolean;
  readonly single_instance_only?: boolean;
  readonly usd_per_month?: string;
}

/** The sizes that App Platform offers. */
export async function readSizes(api: DigitalOcean): Promise<readonly Size[]> {
  const { instance_sizes = [] } = await api.get<{ instance_sizes?: Size[] }>("/v2/apps/tiers/instance_sizes");
  return instance_sizes;
}
