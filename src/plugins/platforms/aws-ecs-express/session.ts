import type { DeployTarget, PlatformSession } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { Aws } from "../aws/aws.ts";
import { readIdentity } from "../aws/aws-context.ts";
import { readSecret, versionOf } from "../aws/secrets.ts";
import { sharedMembers } from "../aws/session.ts";
import { architectureOf, bucketRole } from "./configuration.ts";
import { type Context, expectedUrl, madeRoles } from "./context.ts";
import { exportCloudFormation, exportTerraform } from "./export.ts";
import type { EcsExpressFlags } from "./flags.ts";
import { revisionHistory } from "./history.ts";
import { listServices } from "./list.ts";
import { serviceLogs } from "./logs.ts";
import { planRelease } from "./plan.ts";
import { preflight } from "./preflight.ts";
import { estimateCost } from "./price.ts";
import { prepareRoles, releaseService } from "./release.ts";
import { publicUrl, toRelease } from "./release-of.ts";
import { removeService } from "./remove.ts";
import { rollbackService } from "./rollback.ts";
import { findOwnService } from "./services.ts";

/** One target on ECS Express Mode. */
export async function openSession(
  target: DeployTarget<EcsExpressFlags>,
  tools: DeployTools,
): Promise<PlatformSession> {
  const aws = new Aws(tools, target.region, "ecs");
  const context: Context = { target, tools, aws, identity: await readIdentity(aws) };
  const active = async () => (await findOwnService(context))?.activeConfigurations?.[0];
  return {
    ...sharedMembers(context, {
      prepareRoles: () => prepareRoles(context),
      bucketRole: async (spec) => bucketRole(context, spec, await active()),
      roles: madeRoles(context),
    }),
    preflight: () => preflight(context),
    async inspect() {
      const service = await findOwnService(context);
      return service === undefined ? undefined : toRelease(service);
    },
    environments: () => listServices(context),
    plan: (spec, live) => planRelease(context, spec, live),
    estimate: async (_spec, live) =>
      estimateCost(target.flags, target.region, { live, architecture: await architectureOf(context) }),
    async predictUrl() {
      const service = await findOwnService(context);
      return (service && publicUrl(service)) ?? expectedUrl(context);
    },
    takesImage: () => undefined,
    architecture: () => architectureOf(context),
    release: (spec) => releaseService(context, spec),
    rollback: (to) => rollbackService(context, to),
    history: () => revisionHistory(context),
    // Fewer than one task is not possible; deleting drains them.
    scaleToZero: async () => undefined,
    remove: () => removeService(context),
    readSecret: (name, ref) => readSecret(context, name, versionOf(ref)),
    exports: {
      terraform: (spec) => exportTerraform(context, spec),
      cloudformation: (spec) => exportCloudFormation(context, spec),
    },
    logs: (options) => serviceLogs(context, options),
  };
}
