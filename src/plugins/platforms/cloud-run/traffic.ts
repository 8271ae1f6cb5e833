import type { Service, TrafficTarget } from "./service-types.ts";

const LATEST = "TRAFFIC_TARGET_ALLOCATION_TYPE_LATEST";
const REVISION = "TRAFFIC_TARGET_ALLOCATION_TYPE_REVISION";
/** Tag under which a revision without traffic can be reached. */
const CANDIDATE = "candidate";

/** All traffic to the newest revision, now and after later rollouts. */
export function allToLatest(): TrafficTarget[] {
  return [{ type: LATEST, percent: 100 }];
}

/** All traffic to one revision, until changed. */
export function allToRevision(revision: string): TrafficTarget[] {
  return [{ type: REVISION, revision: shortName(revision), percent: 100 }];
}

/** Traffic stays where it is, by revision; the newest gets no traffic, but its own address. */
export function heldBack(service: Service): TrafficTarget[] {
  const serving = (service.trafficStatuses ?? []).filter((status) => (status.percent ?? 0) > 0);
  const pins = serving.map((status) => ({
    type: REVISION,
    revision: status.revision ?? shortName(service.latestReadyRevision ?? ""),
    percent: status.percent ?? 0,
  }));
  return [...pins, { type: LATEST, percent: 0, tag: CANDIDATE }];
}

/** Whether the newest revision serves everyone, now and after later rollouts. */
export function isAllOnLatest(service: Service): boolean {
  const targets = (service.traffic ?? []).filter((target) => (target.percent ?? 0) > 0);
  const floating = targets.length === 0 || (targets.length === 1 && targets[0]?.type === LATEST);
  return floating && servingRevision(service) === shortName(service.latestCreatedRevision ?? "");
}

/** The revision that most users get. */
export function servingRevision(service: Service): string | undefined {
  const serving = [...(service.trafficStatuses ?? [])]
    .filter((status) => (status.percent ?? 0) > 0)
    .sort((a, b) => (b.percent ?? 0) - (a.percent ?? 0))[0];
  if (serving === undefined) return undefined;
  const revision = serving.revision ?? service.latestReadyRevision;
  return revision === undefined ? undefined : shortName(revision);
}

/** Address of the revision without traffic. */
export function candidateUrl(service: Service): string | undefined {
  return service.trafficStatuses?.find((status) => status.tag === CANDIDATE)?.uri;
}

export function shortName(name: string): string {
  return name.split("/").at(-1) ?? name;
}
