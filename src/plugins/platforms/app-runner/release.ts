import type { DeployError } from "../../../deploy/errors.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { ensureRole } from "../aws/roles.ts";
import { ensureLabels, serviceTags } from "../aws/service-tags.ts";
import { CloudError } from "../cloud/cloud-error.ts";
import { ensureDomain } from "../cloud/domain.ts";
import { didNotStart, noLonger } from "../cloud/findings.ts";
import type { Propagation } from "../cloud/retry.ts";
import { type Configuration, isSameConfiguration, ownRoles, wantedConfiguration } from "./configuration.ts";
import { accessRole, type Context } from "./context.ts";
import { domainsOf } from "./domains.ts";
import { keepRelease } from "./kept-releases.ts";
import { failureLog } from "./logs.ts";
import { toRelease } from "./release-of.ts";
import { deleteService } from "./remove.ts";
import { dropScaling, ensureScaling, hasWantedScaling } from "./scaling.ts";
import type { Operation, Service } from "./service-types.ts";
import { findOwnService, listOperations, listTags, settledService, waitForOperation } from "./services.ts";

interface Started {
  readonly Service?: Service;
  readonly OperationId?: string;
}

const ROLE_NOT_READY: Propagation = {
  what: "the new role to be usable",
  matches: ({ code, text }) =>
    code === "InvalidRequestException" && /assuming (access|instance) role/i.test(text),
  budget: 120_000,
};

/** Creates the roles that a service needs, before anything refers to them. */
export async function prepareRoles(context: Context): Promise<void> {
  await ensureRole(context, accessRole(context));
}

/** Rolls out the spec, as a new service or as an update of the existing one. */
export async function releaseService(context: Context, spec: ReleaseSpec): Promise<Release> {
  const live = await settledService(context);
  for (const role of ownRoles(context, spec, live)) await ensureRole(context, role);
  const scaling = await ensureScaling(
    context,
    live?.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn,
  );
  if (live === undefined) await createService(context, spec, scaling);
  else if (live.Status === "CREATE_FAILED") await repairService(context, live, spec, scaling);
  else await updateService(context, live, spec, scaling);
  const service = await settledService(context);
  if (service === undefined) throw noLonger(context.target);
  await ensureDomain({ tools: context.tools, wanted: context.target.flags.domain }, domainsOf(context));
  await dropScaling(context, service.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn);
  return toRelease(context, service);
}

async function createService(
  context: Context,
  spec: ReleaseSpec,
  scaling: string | undefined,
  before?: Service,
): Promise<void> {
  const { aws, target, tools } = context;
  const started = await tools.journal(
    { step: "service.create", data: { before: null, operation: null } },
    async (note) => {
      const begun = await aws.send<Started>(
        "apprunner",
        "CreateService",
        {
          ServiceName: target.serviceName,
          ...(before?.NetworkConfiguration && { NetworkConfiguration: before.NetworkConfiguration }),
          ...wantedConfiguration(context, spec, before),
          ...(scaling === undefined ? {} : { AutoScalingConfigurationArn: scaling }),
          Tags: serviceTags(target),
        },
        { propagation: [ROLE_NOT_READY], reread: () => startedService(context) },
      );
      await note({ operation: begun.OperationId ?? null });
      return begun;
    },
  );
  await finish(context, started);
}

async function updateService(
  context: Context,
  live: Service,
  spec: ReleaseSpec,
  scaling: string | undefined,
): Promise<void> {
  const wanted = wantedConfiguration(context, spec, live);
  const scaled = hasWantedScaling(context, live.AutoScalingConfigurationSummary?.AutoScalingConfigurationArn);
  const resumed = live.Status === "PAUSED" ? await resumeService(context, live) : live;
  if (context.target.labels !== undefined)
    await ensureLabels(context, "apprunner", live.ServiceArn ?? "", await listTags(context, live));
  if (scaled && isSameConfiguration(resumed, wanted)) return;
  await judgeKilledRun(context, live);
  await putConfiguration(context, "service.update", resumed, {
    ...wanted,
    ...(scaling === undefined ? {} : { AutoScalingConfigurationArn: scaling }),
  });
}

/** Changes a service, after waiting for other operations on it. */
export async function putConfiguration(
  context: Context,
  step: string,
  live: Service,
  changes: Partial<Configuration> & { readonly AutoScalingConfigurationArn?: string },
): Promise<void> {
  const { aws, tools } = context;
  await keepRelease(context, live);
  for (;;) {
    try {
      const before = (await listOperations(context, live.ServiceArn ?? ""))[0]?.Id ?? null;
      const started = await tools.journal({ step, data: { before, operation: null } }, async (note) => {
        const begun = await aws.send<Started>(
          "apprunner",
          "UpdateService",
          { ServiceArn: live.ServiceArn, ...changes },
          { propagation: [ROLE_NOT_READY], reread: () => startedService(context) },
        );
        await note({ operation: begun.OperationId ?? null });
        return begun;
      });
      await finish(context, started);
      return;
    } catch (error) {
      if (!(error instanceof CloudError) || error.code !== "InvalidStateException") throw error;
      tools.report("another operation on the service is in progress; waiting for it");
      await tools.sleep(4000);
      const settled = await settledService(context);
      if (settled === undefined) throw noLonger(context.target);
      if (settled.Status === "CREATE_FAILED") throw error;
    }
  }
}

/** A service that never started may be repaired; if App Runner refuses that, it is recreated. */
async function repairService(
  context: Context,
  live: Service,
  spec: ReleaseSpec,
  scaling: string | undefined,
): Promise<void> {
  await judgeKilledRun(context, live);
  try {
    await putConfiguration(context, "service.repair", live, wantedConfiguration(context, spec, live));
  } catch (error) {
    if (!(error instanceof CloudError) || error.status !== 400) throw error;
    context.tools.report("the service that failed to start cannot be repaired; it will be recreated");
    await deleteService(context);
    await createService(context, spec, scaling, live);
  }
}

async function resumeService(context: Context, live: Service): Promise<Service> {
  await context.tools.journal({ step: "service.resume" }, async () => {
    const started = await context.aws.send<Started>("apprunner", "ResumeService", {
      ServiceArn: live.ServiceArn,
    });
    await waitForOperation(context, live.ServiceArn ?? "", started.OperationId);
  });
  return (await settledService(context)) ?? live;
}

/** What an operation that an unanswered call may have started is for. */
async function startedService(context: Context): Promise<Started | undefined> {
  const Service = await findOwnService(context);
  if (Service?.Status !== "OPERATION_IN_PROGRESS") return undefined;
  const [newest] = await listOperations(context, Service.ServiceArn ?? "");
  return { Service, ...(newest?.Id === undefined ? {} : { OperationId: newest.Id }) };
}

async function finish(context: Context, { Service, OperationId }: Started): Promise<void> {
  const ended = await waitForOperation(context, Service?.ServiceArn ?? "", OperationId);
  if (ended.Status !== "SUCCEEDED") throw await operationError(context, ended, Service);
}

/** App Runner's own rollback looks like success: the service is running, with the previous version. */
async function operationError(context: Context, ended: Operation, service?: Service): Promise<DeployError> {
  const rolledBack = ended.Status === "ROLLBACK_SUCCEEDED";
  const words = rolledBack ? "App Runner rolled back to the previous version" : "see the log for the cause";
  const detail = `Operation ${ended.Id} ended as ${ended.Status}: ${words}`;
  return didNotStart(context.target, { rolledBack, detail, log: await failureLog(context, service) });
}

/**
 * What a killed run started may have failed in the meantime: that is its outcome, and it must not be retried.
 */
async function judgeKilledRun(context: Context, live: Service): Promise<void> {
  const noted = ["service.update", "service.repair", "service.create"]
    .map((step) => context.tools.recall(step))
    .find((data) => data !== undefined);
  if (noted === undefined) return;
  const newestFirst = await listOperations(context, live.ServiceArn ?? "");
  const before = newestFirst.findIndex(({ Id }) => Id === noted.before);
  // If the run was killed before it received its operation's id, it had started the operation after the last
  // one it had seen.
  const next = before < 0 ? newestFirst.at(-1) : newestFirst[before - 1];
  const ended = newestFirst.find(({ Id }) => Id === noted.operation) ?? next;
  if (ended?.Status && ended.Status !== "SUCCEEDED") throw await operationError(context, ended, live);
}
