import { isDeepStrictEqual } from "node:util";
import { DeployError } from "../../../deploy/errors.ts";
import { wantedLabels } from "../../../deploy/labels.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { superseded } from "../../../deploy/serving.ts";
import { ensureDomain } from "../cloud/domain.ts";
import { ownershipOf } from "../cloud/ownership.ts";
import { ensureAccess, mayDisableInvokerCheck } from "./access.ts";
import { isSameTemplate } from "./changes.ts";
import type { Context } from "./context.ts";
import { domainsOf } from "./domains.ts";
import { INGRESS } from "./network.ts";
import { newestRelease } from "./release-of.ts";
import { letRead, ofOthers } from "./secrets.ts";
import {
  changeService,
  finishRollout,
  isRevisionReady,
  rolloutError,
  type ServiceChange,
  settledService,
} from "./service.ts";
import type { Operation, Service } from "./service-types.ts";
import { newScaling, wantedScaling, wantedTemplate } from "./template.ts";
import { allToLatest, candidateUrl, heldBack, isAllOnLatest, servingRevision, shortName } from "./traffic.ts";

/**
 * Rolls out the spec: with traffic if nothing is serving yet, else without traffic beside the serving
 * revision.
 */
export async function releaseService(context: Context, spec: ReleaseSpec): Promise<Release> {
  const live = await settledService(context);
  const { serviceAccount } = context.target.flags;
  const isNewAccount = serviceAccount !== undefined && serviceAccount !== live?.template?.serviceAccount;
  await letRead(context, live && isNewAccount ? spec.secrets : ofOthers(context, spec.secrets));
  const service =
    live === undefined ? await createService(context, spec) : await updateService(context, spec, live);
  await ensureAccess(context, service, isMade(context, live));
  await ensureDomain({ tools: context.tools, wanted: context.target.flags.domain }, domainsOf(context));
  const release = newestRelease(context, service);
  if (isAllOnLatest(service)) return release;
  const probeUrl = candidateUrl(service);
  return { ...release, noTraffic: true, ...(probeUrl === undefined ? {} : { probeUrl }) };
}

/** The body of a service that does not exist yet. */
export function newServiceBody(context: Context, spec: ReleaseSpec): Service {
  const { flags } = context.target;
  const labels = ownershipOf(context.target);
  return {
    labels: wantedLabels(context.target, labels),
    template: { ...wantedTemplate(spec, flags), labels },
    scaling: newScaling(flags),
    ...(flags.ingress === undefined ? {} : { ingress: INGRESS[flags.ingress] }),
    traffic: allToLatest(),
  };
}

async function createService(context: Context, spec: ReleaseSpec): Promise<Service> {
  const google = await context.google();
  const body = newServiceBody(context, spec);
  const open = !context.target.flags.private && (await mayDisableInvokerCheck(context, body));
  const operation = await context.tools.journal(
    { step: "service.create", data: { image: spec.image } },
    async (note) => {
      const begun = await google.send<Operation>("run", "POST", `/v2/${context.location}/services`, {
        query: { serviceId: context.target.serviceName },
        body: open ? { ...body, invokerIamDisabled: true } : body,
        reread: async () =>
          (await google.find("run", `/v2/${context.service}`)) ? { name: "", done: true } : undefined,
      });
      await note({ operation: begun.name });
      return begun;
    },
  );
  try {
    return await finishRollout(context, operation);
  } catch (error) {
    // The next deployment finds the service, and keeps its access.
    await openFailed(context).catch((second: unknown) => context.tools.report(String(second)));
    throw error;
  }
}

async function openFailed(context: Context): Promise<void> {
  const google = await context.google();
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  if (service !== undefined) await ensureAccess(context, service, true);
}

/** Whether this run, or the killed run that it resumes, created the service. */
function isMade(context: Context, before: Service | undefined): boolean {
  return before === undefined || context.tools.recall("service.create") !== undefined;
}

async function updateService(context: Context, spec: ReleaseSpec, seen: Service): Promise<Service> {
  const newest = shortName(seen.latestCreatedRevision ?? "");
  const ready = newest !== "" && (await isRevisionReady(context, newest));
  const same = isSameTemplate(seen.template, wantedTemplate(spec, context.target.flags, seen.template));
  if (same && !ready && isLeftByKilledRun(context, newest)) throw await rolloutError(context, seen);
  return changeService(context, "service.update", (live) => toChange(context, spec, live, ready || !same));
}

function toChange(
  context: Context,
  spec: ReleaseSpec,
  live: Service,
  usable: boolean,
): ServiceChange | undefined {
  const { flags } = context.target;
  const template = wantedTemplate(spec, flags, live.template);
  const scaling = wantedScaling(flags, live.scaling);
  const labels = { ...wantedLabels(context.target, live.labels), ...ownershipOf(context.target) };
  const fresh = !isSameTemplate(live.template, template) || !usable;
  const traffic = servingRevision(live) === undefined ? allToLatest() : heldBack(live);
  const held = isAllOnLatest(live) || candidateUrl(live) !== undefined;
  const fields = {
    ...(fresh ? { template } : {}),
    ...(fresh || !held ? { traffic } : {}),
    ...(isDeepStrictEqual(scaling, live.scaling ?? {}) ? {} : { scaling }),
    ...(flags.ingress === undefined || INGRESS[flags.ingress] === live.ingress
      ? {}
      : { ingress: INGRESS[flags.ingress] }),
    ...(isDeepStrictEqual(labels, live.labels ?? {}) ? {} : { labels }),
  };
  if (Object.keys(fields).length === 0) return undefined;
  return { fields, ...(fresh && !usable ? { forceNewRevision: true } : {}) };
}

/** Whether the newest revision was created by a run that was killed before it saw the revision fail. */
function isLeftByKilledRun(context: Context, newest: string): boolean {
  const update = context.tools.recall("service.update");
  if (update && shortName(String(update.before ?? "")) !== newest) return true;
  return context.tools.recall("service.create") !== undefined;
}

/**
 * Shifts all traffic to the newest revision, now and after later rollouts. It must be the revision that was
 * checked: a revision that somebody else rolled out in the meantime must not be promoted by this deployment.
 */
export async function promoteNewest(context: Context, checked: Release): Promise<Release> {
  const service = await changeService(context, "service.promote", (live) => {
    const newest = newestRelease(context, live);
    if (newest.revision !== checked.revision) throw superseded(context.target.serviceName, newest);
    return isAllOnLatest(live) && candidateUrl(live) === undefined
      ? undefined
      : { fields: { traffic: allToLatest() } };
  });
  if (!isAllOnLatest(service))
    throw new DeployError(
      "failed",
      `Traffic did not move to revision "${shortName(service.latestCreatedRevision ?? "")}"`,
      {
        outcome: `Revision "${servingRevision(service)}" is still serving`,
        fix: "Run the same command again",
      },
    );
  return newestRelease(context, service);
}
