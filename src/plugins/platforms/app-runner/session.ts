import { DeployError } from "../../../deploy/errors.ts";
import type { DeployTarget, PlatformSession, Release } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { Aws } from "../aws/aws.ts";
import { readIdentity } from "../aws/aws-context.ts";
import { sharedMembers } from "../aws/session.ts";
import { domainUrl, withDomain } from "../cloud/domain.ts";
import { bucketRole } from "./configuration.ts";
import { type Context, madeRoles } from "./context.ts";
import { domainsOf } from "./domains.ts";
import { exportCloudFormation, exportTerraform } from "./export.ts";
import type { AppRunnerFlags } from "./flags.ts";
import { releaseHistory } from "./kept-releases.ts";
import { listServices } from "./list.ts";
import { serviceLogs } from "./logs.ts";
import { planRelease } from "./plan.ts";
import { preflight, regionProblem } from "./preflight.ts";
import { estimateCost } from "./price.ts";
import { prepareRoles, releaseService } from "./release.ts";
import { releaseOf, toRelease } from "./release-of.ts";
import { pauseService, removeService } from "./remove.ts";
import { rollbackService } from "./rollback.ts";
import { readRunningSecret } from "./running-secret.ts";
import { findOwnService } from "./services.ts";

/** One target on App Runner. */
export async function openSession(
  target: DeployTarget<AppRunnerFlags>,
  tools: DeployTools,
): Promise<PlatformSession> {
  const aws = new Aws(tools, target.region, "apprunner");
  const context: Context = { target, tools, aws, identity: await readIdentity(aws) };
  const { domain } = target.flags;
  const domains = domainsOf(context);
  const addressed = <R extends Release | undefined>(release: R) => withDomain(release, domain, domains);
  const shared = sharedMembers(context, {
    prepareRoles: () => prepareRoles(context),
    bucketRole: async (spec) => bucketRole(context, spec, await findOwnService(context)),
    roles: madeRoles(context),
  });
  return {
    ...shared,
    preflight: () => preflight(context),
    async inspect() {
      const service = await findOwnService(context);
      return service === undefined ? undefined : addressed(await toRelease(context, service));
    },
    environments: () => listServices(context),
    plan: (spec, live) => planRelease(context, spec, live),
    estimate: async (_spec, live) => estimateCost(target.flags, target.region, live),
    async predictUrl(live) {
      const own = await domainUrl(domain, live?.env?.SERVICE_PUBLIC_URL, domains);
      if (own !== undefined || domain === undefined) return own;
      const service = await findOwnService(context);
      return service && releaseOf(service, undefined).url;
    },
    lock: async (holder, request) => {
      const problem = regionProblem(context);
      if (problem !== undefined)
        throw new DeployError("preflight", problem.message, {
          outcome: "Nothing was changed",
          fix: problem.fix,
        });
      return shared.lock(holder, request);
    },
    takesImage: (ref) =>
      /^\d{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com\//.test(ref)
        ? undefined
        : "App Runner takes images of a private registry of ECR only",
    release: async (spec) => addressed(await releaseService(context, spec)),
    rollback: async (to) => addressed(await rollbackService(context, to)),
    history: () => releaseHistory(context),
    scaleToZero: () => pauseService(context),
    remove: () => removeService(context),
    readSecret: (name) => readRunningSecret(context, name),
    exports: {
      terraform: (spec) => exportTerraform(context, spec),
      cloudformation: (spec) => exportCloudFormation(context, spec),
    },
    logs: (options) => serviceLogs(context, options),
  };
}
