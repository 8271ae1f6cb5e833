import { isDeepStrictEqual } from "node:util";
import { DeployError } from "../../deploy/errors.ts";
import type { Release } from "../../deploy/platform.ts";
import type { Context } from "./context.ts";
import { servingRelease, toRelease } from "./release-of.ts";
import { changeService, finishChange } from "./service.ts";
import type { Revision, Service } from "./service-types.ts";
import { allToRevision, servingRevision, shortName } from "./traffic.ts";

/** Puts all traffic on an earlier revision; it stays there until the next rollout removes the pin. */
export async function rollbackTo(context: Context, to: Release): Promise<Release> {
  const revision = shortName(String(to.data?.revision ?? to.revision ?? ""));
  if (revision === "")
    throw new DeployError("failed", "The release to roll back to has no revision", {
      fix: "List the revisions with: svc deploy rollback --list",
    });
  const wanted = allToRevision(revision);
  const service = await changeService(
    context,
    "service.rollback",
    (live) =>
      isDeepStrictEqual(targetsOf(live), wanted) && servingRevision(live) === revision
        ? undefined
        : { fields: { traffic: wanted } },
    finishChange,
  );
  if (servingRevision(service) !== revision)
    throw new DeployError("failed", `Traffic did not move back to revision "${revision}"`, {
      outcome: `Revision "${servingRevision(service)}" serves`,
      fix: `gcloud run services update-traffic ${context.target.serviceName} --region ${context.target.region} --to-revisions ${revision}=100`,
    });
  return servingRelease(context, service);
}

/** Revisions that could serve, newest first. */
export async function revisionHistory(context: Context): Promise<Release[]> {
  const google = await context.google();
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  if (service === undefined) return [];
  const { revisions = [] } = await google.get<{ revisions?: Revision[] }>(
    "run",
    `/v2/${context.service}/revisions`,
    {
      pageSize: 50,
    },
  );
  return revisions
    .filter((revision) =>
      revision.conditions?.some(({ type, state }) => type === "Ready" && state === "CONDITION_SUCCEEDED"),
    )
    .sort((a, b) => (b.createTime ?? "").localeCompare(a.createTime ?? ""))
    .map((revision) => toRelease(context, service, shortName(revision.name ?? ""), revision.containers?.[0]));
}

function targetsOf(service: Service): unknown {
  return (service.traffic ?? []).filter((target) => (target.percent ?? 0) > 0 || target.tag);
}
