import { isDeepStrictEqual } from "node:util";
import { STORAGE_URL } from "../../../deploy/config.ts";
import { DeployError } from "../../../deploy/errors.ts";
import type { Release } from "../../../deploy/platform.ts";
import { isSameTemplate } from "./changes.ts";
import type { Context } from "./context.ts";
import { servingRelease, toRelease } from "./release-of.ts";
import { changeService, finishChange, settledService } from "./service.ts";
import type { Revision, Service, Template } from "./service-types.ts";
import { plainEnv } from "./template.ts";
import { allToLatest, allToRevision, isAllOnLatest, servingRevision, shortName } from "./traffic.ts";

/** What a revision has of the template that it was made from, besides labels, which tell its target. */
const TEMPLATE = [
  ...["annotations", "scaling", "vpcAccess", "timeout", "serviceAccount", "containers", "volumes"],
  ...["executionEnvironment", "encryptionKey", "maxInstanceRequestConcurrency", "sessionAffinity"],
  ...["serviceMesh", "encryptionKeyRevocationAction", "encryptionKeyShutdownDuration", "nodeSelector"],
  "gpuZonalRedundancyDisabled",
];

/**
 * Puts all traffic on an earlier revision; it stays there until the next rollout removes the pin. One with its jobs in a
 * bucket is rolled out again instead.
 */
export async function rollbackTo(context: Context, to: Release): Promise<Release> {
  const revision = shortName(String(to.data?.revision ?? to.revision ?? ""));
  if (revision === "")
    throw new DeployError("failed", "The release to roll back to has no revision", {
      fix: "Name one: svc deploy rollback --to <revision>",
    });
  const again = await templateToRepeat(context, revision);
  if (again !== undefined) return repeat(context, again);
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

/**
 * The template of an earlier revision whose instances may still run: they have lost the store in their bucket to those of the
 * serving revision, and do not get it back.
 */
async function templateToRepeat(context: Context, revision: string): Promise<Template | undefined> {
  const google = await context.google();
  const service = await settledService(context);
  if (service === undefined || servingRevision(service) === revision) return undefined;
  const found = await google.find<Revision>("run", `/v2/${context.service}/revisions/${revision}`);
  if (found === undefined || plainEnv(found.containers?.[0])[STORAGE_URL] === undefined) return undefined;
  const settings = Object.entries(found).filter(([key]) => TEMPLATE.includes(key));
  const { labels } = service.template ?? {};
  return { ...Object.fromEntries(settings), ...(labels ? { labels } : {}) };
}

async function repeat(context: Context, template: Template): Promise<Release> {
  const service = await changeService(context, "service.rollback", (live) =>
    isSameTemplate(live.template, template) && isAllOnLatest(live)
      ? undefined
      : { fields: { template, traffic: allToLatest() } },
  );
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
