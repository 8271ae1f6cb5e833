import type { DeployError } from "../../../deploy/errors.ts";
import type { Release, ReleaseSpec } from "../../../deploy/platform.ts";
import { ensureRole, roleArn } from "../aws/roles.ts";
import { secretPolicy } from "../aws/secret-policy.ts";
import { ensureLabels, serviceTags } from "../aws/service-tags.ts";
import { didNotStart, noLonger } from "../cloud/findings.ts";
import type { Propagation } from "../cloud/retry.ts";
import {
  isSameConfiguration,
  type Wanted,
  wantedConfiguration,
  wantedExecutionRole,
} from "./configuration.ts";
import {
  type Context,
  clusterOf,
  executionRole,
  expectedUrl,
  infrastructureRole,
  serviceArn,
} from "./context.ts";
import { failureLog } from "./logs.ts";
import { publicUrl, toRelease } from "./release-of.ts";
import type { Service, ServiceDeployment } from "./service-types.ts";
import { findOwnService, newestDeployment, settledService, tagsOf, waitForDeployment } from "./services.ts";

interface Started {
  readonly service?: Service;
}

const ROLE_NOT_READY: Propagation = {
  what: "the new role to be usable",
  matches: ({ code, text }) =>
    (code === "AccessDeniedException" &&
      /Cannot assume role|not authorized to perform: sts:AssumeRole/i.test(text)) ||
    (code === "ClientException" && /not able to validate the provided access credentials/i.test(text)) ||
    (code === "InvalidParameterException" && /role/i.test(text) && /assume/i.test(text)),
  budget: 120_000,
};

/** Creates the roles that a service needs, before anything refers to them. */
export async function prepareRoles(context: Context): Promise<void> {
  await ensureRole(context, infrastructureRole(context));
}

/** Rolls out the spec, as a new service or as an update of the existing one. */
export async function releaseService(context: Context, spec: ReleaseSpec): Promise<Release> {
  await ensureRole(context, infrastructureRole(context));
  const live = await settledService(context);
  const role = executionRole(context, secretPolicy(spec.secrets));
  if (wantedExecutionRole(context, live?.activeConfigurations?.[0]) === roleArn(context, role.name))
    await ensureRole(context, role);
  if (live === undefined) await createService(context, spec);
  else await updateService(context, live, spec);
  const service = await settledService(context);
  if (service === undefined) throw noLonger(context.target);
  const url = publicUrl(service);
  const guessed = live === undefined && spec.publicUrl === expectedUrl(context);
  // The format of the address is not guaranteed: a service that got a different one is updated, at the cost
  // of a rollout.
  if (!guessed || url === undefined || url === spec.publicUrl) return toRelease(service);
  return releaseService(context, { ...spec, publicUrl: url, env: { ...spec.env, SERVICE_PUBLIC_URL: url } });
}

async function createService(context: Context, spec: ReleaseSpec): Promise<void> {
  const { aws, target, tools } = context;
  const tags = serviceTags(target).map(({ Key: key, Value: value }) => ({ key, value }));
  const { service } = await tools.journal({ step: "service.create", data: { image: spec.image } }, () =>
    aws.send<Started>(
      "ecs",
      "CreateExpressGatewayService",
      {
        serviceName: target.serviceName,
        cluster: clusterOf(target.flags),
        infrastructureRoleArn: roleArn(context, infrastructureRole(context).name),
        ...wantedConfiguration(context, spec),
        tags,
      },
      {
        propagation: [ROLE_NOT_READY],
        reread: async () => {
          const found = await findOwnService(context);
          return found && { service: found };
        },
      },
    ),
  );
  await finish(context, service?.currentDeployment);
}

async function updateService(context: Context, live: Service, spec: ReleaseSpec): Promise<void> {
  const active = live.activeConfigurations?.[0];
  const wanted = wantedConfiguration(context, spec, active);
  await judgeKilledRun(context, active !== undefined && isSameConfiguration(active, wanted));
  await ensureLabels(context, "ecs", serviceArn(context), tagsOf(live));
  if (isSameConfiguration(active, wanted)) return;
  await putConfiguration(context, "service.update", wanted);
}

/** Changes a service, and follows the deployment that this starts. */
export async function putConfiguration(
  context: Context,
  step: string,
  wanted: Partial<Wanted>,
): Promise<void> {
  const { aws, tools } = context;
  const before = (await newestDeployment(context))?.serviceDeploymentArn;
  const begun = async () => {
    const newest = await newestDeployment(context);
    return newest?.serviceDeploymentArn === before ? undefined : newest;
  };
  await tools.journal({ step, data: { before: before ?? null } }, () =>
    aws.send<Started>(
      "ecs",
      "UpdateExpressGatewayService",
      { serviceArn: serviceArn(context), ...wanted },
      {
        propagation: [ROLE_NOT_READY, STILL_DEPLOYING],
        reread: async () => ((await begun()) ? {} : undefined),
      },
    ),
  );
  await finish(context, (await begun())?.serviceDeploymentArn);
}

const STILL_DEPLOYING: Propagation = {
  what: "another deployment of the service to end",
  matches: ({ code, text }) => code === "ClientException" && /deployment.*(progress|ongoing)/i.test(text),
  budget: 600_000,
};

async function finish(context: Context, arn: string | undefined): Promise<void> {
  const deployment = arn ?? (await newestDeployment(context))?.serviceDeploymentArn;
  if (deployment === undefined) return;
  const ended = await waitForDeployment(context, deployment);
  if (ended.status !== "SUCCESSFUL") throw await deploymentError(context, ended);
}

/** ECS rolls back by itself when tasks or health checks fail; the service is ACTIVE all the time. */
async function deploymentError(context: Context, ended: ServiceDeployment): Promise<DeployError> {
  return didNotStart(context.target, {
    rolledBack: ended.status === "ROLLBACK_SUCCESSFUL",
    detail: [`The deployment ended as ${ended.status}`, ended.statusReason].filter(Boolean).join(": "),
    log: await failureLog(context),
  });
}

/**
 * What a killed run started may have failed in the meantime: that is its outcome, and it must not be retried.
 */
async function judgeKilledRun(context: Context, done: boolean): Promise<void> {
  if (done) return;
  for (const step of ["service.update", "service.create"]) {
    const noted = context.tools.recall(step);
    if (noted === undefined) continue;
    const newest = await newestDeployment(context);
    const begun = newest !== undefined && newest.serviceDeploymentArn !== noted.before;
    if (begun && newest.status !== "SUCCESSFUL") throw await deploymentError(context, newest);
  }
}
