import { DeployError } from "../../../deploy/errors.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { noLonger } from "../cloud/findings.ts";
import { pollUntil } from "../cloud/poll.ts";
import type { Context } from "./context.ts";
import { lastLogLines } from "./logs.ts";
import { waitForOperation } from "./operations.ts";
import type { Condition, Operation, Revision, Service } from "./service-types.ts";
import { shortName } from "./traffic.ts";

/** A change to the service: the fields it writes, with their new values. */
export interface ServiceChange {
  readonly fields: Partial<Service>;
  /** Creates a new revision even if the template is the same as the newest one's. */
  readonly forceNewRevision?: boolean;
}

/** Follows the operation that a change started. */
type Finish = (context: Context, operation: Operation) => Promise<Service>;

const SETTLING = 2000;
const CONFLICTS = 6;

/** The service, once no rollout of it is in progress. */
export async function settledService(context: Context): Promise<Service | undefined> {
  const google = await context.google();
  return pollUntil({
    tools: context.tools,
    every: SETTLING,
    read: () => google.find<Service>("run", `/v2/${context.service}`),
    done: (service) => service === undefined || isSettled(service),
  });
}

function isSettled(service: Service): boolean {
  return !service.reconciling && service.observedGeneration === service.generation;
}

/**
 * Reads the service, computes a change, and applies it to the version that was read. On a conflict it first
 * reads again: a call whose response failed may still have taken effect.
 */
export async function changeService(
  context: Context,
  step: string,
  plan: (live: Service) => ServiceChange | undefined,
  finish: Finish = finishRollout,
): Promise<Service> {
  for (let conflicts = 0; ; conflicts++) {
    const live = await settledService(context);
    if (live === undefined) throw noLonger(context.target);
    const change = plan(live);
    if (change === undefined) return live;
    try {
      return await patchService({ context, step, live, change, finish });
    } catch (error) {
      if (!isCloudError(error) || error.status !== 409 || conflicts >= CONFLICTS) throw error;
      context.tools.report("the service was changed in the meantime; reading it again");
      await context.tools.sleep(1000);
    }
  }
}

interface Patch {
  readonly context: Context;
  readonly step: string;
  readonly live: Service;
  readonly change: ServiceChange;
  readonly finish: Finish;
}

async function patchService({ context, step, live, change, finish }: Patch): Promise<Service> {
  const { fields, forceNewRevision } = change;
  const google = await context.google();
  const revisions = { before: live.latestCreatedRevision ?? null };
  // The model asks for a template in every body; the mask says whether it counts.
  const { revision: _, ...template } = live.template ?? {};
  const operation = await context.tools.journal({ step, data: revisions }, async (note) => {
    const begun = await google.send<Operation>("run", "PATCH", `/v2/${context.service}`, {
      query: { updateMask: Object.keys(fields).join(","), forceNewRevision },
      body: { name: context.service, template, ...fields, etag: live.etag },
    });
    await note({ operation: begun.name });
    return begun;
  });
  return finish(context, operation);
}

/** Follows a rollout to its end; a failure has its cause and the last lines of the log. */
export async function finishRollout(context: Context, operation: Operation): Promise<Service> {
  const ended = await waitForOperation(context, "run", operation);
  const service = await settledService(context);
  if (service === undefined) throw noLonger(context.target);
  if (ended.error) throw await rolloutError(context, service, ended.error.message);
  if (service.terminalCondition?.state === "CONDITION_FAILED")
    throw await rolloutError(context, service, service.terminalCondition.message);
  return service;
}

/**
 * Follows a change that starts nothing, of traffic or scaling. A revision that failed before makes the whole service and
 * its operations count as failed; whether the change itself took effect shows in the service.
 */
export async function finishChange(context: Context, operation: Operation): Promise<Service> {
  await waitForOperation(context, "run", operation);
  const service = await settledService(context);
  if (service === undefined) throw noLonger(context.target);
  return service;
}

export async function rolloutError(context: Context, service: Service, words?: string): Promise<DeployError> {
  const revision = shortName(service.latestCreatedRevision ?? "");
  const cause = (service.conditions ?? []).find((condition) => condition.state === "CONDITION_FAILED");
  const reasons = [causeOf(service.terminalCondition), causeOf(cause)].filter((reason) => reason !== "");
  return new DeployError("failed", `Revision "${revision}" did not start`, {
    detail: [...new Set([words ?? service.terminalCondition?.message ?? "", ...reasons])]
      .filter(Boolean)
      .join(" — "),
    log: await lastLogLines(context, revision),
  });
}

function causeOf(condition: Condition | undefined): string {
  return [condition?.reason, condition?.revisionReason].filter(Boolean).join("/");
}

/** Whether a revision was ever able to serve. */
export async function isRevisionReady(context: Context, revision: string): Promise<boolean> {
  const google = await context.google();
  const found = await google.find<Revision>("run", `/v2/${context.service}/revisions/${shortName(revision)}`);
  const ready = found?.conditions?.find((condition) => condition.type === "Ready");
  return ready?.state === "CONDITION_SUCCEEDED";
}
