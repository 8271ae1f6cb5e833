import type { CloudRunFlags } from "./flags.ts";
import type { VpcAccess } from "./service-types.ts";
import { shortName } from "./traffic.ts";

/** Values of `--ingress` in the API. */
export const INGRESS = {
  all: "INGRESS_TRAFFIC_ALL",
  internal: "INGRESS_TRAFFIC_INTERNAL_ONLY",
  "internal-and-cloud-load-balancing": "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER",
} as const;

/** Whether requests from the internet reach a service. */
export function isReachable(ingress: string | undefined): boolean {
  return ingress === undefined || ingress === "INGRESS_TRAFFIC_UNSPECIFIED" || ingress === INGRESS.all;
}

/** The network of outgoing requests. What no option names is kept; equivalent names keep the server's notation. */
export function wantedVpc(
  { network, subnet, vpcEgress }: CloudRunFlags,
  live: VpcAccess | undefined,
): VpcAccess | undefined {
  if (network === "none") return undefined;
  const egress = vpcEgress === undefined ? live?.egress : EGRESS[vpcEgress];
  const kept = { ...live, ...(egress === undefined ? {} : { egress }) };
  const [before] = live?.networkInterfaces ?? [];
  const same =
    (network === undefined || isSameName(before?.network, network)) &&
    (subnet === undefined || isSameName(before?.subnetwork, subnet));
  if (same) return Object.keys(kept).length === 0 ? undefined : kept;
  // An interface in a network takes the place of a connector.
  const { connector: _, ...rest } = kept;
  const wanted = {
    ...(network === undefined ? {} : { network }),
    ...(subnet === undefined ? {} : { subnetwork: subnet }),
    ...(before?.tags === undefined ? {} : { tags: before.tags }),
  };
  return { ...rest, networkInterfaces: [wanted] };
}

/** A network in words, for the plan. */
export function vpcText({ connector, egress, networkInterfaces = [] }: VpcAccess = {}): string {
  const places = networkInterfaces.map(({ network, subnetwork }) =>
    [network, subnetwork].flatMap((name) => (name === undefined ? [] : shortName(name))).join("/"),
  );
  const words = [connector === undefined ? [] : shortName(connector), places, egress ?? []].flat();
  return words.length === 0 ? "none" : words.join(", ");
}

const EGRESS = { "all-traffic": "ALL_TRAFFIC", "private-ranges-only": "PRIVATE_RANGES_ONLY" } as const;

/** "default" is "projects/p/global/networks/default". */
function isSameName(live: string | undefined, wanted: string): boolean {
  return live !== undefined && (live === wanted || (!wanted.includes("/") && shortName(live) === wanted));
}
