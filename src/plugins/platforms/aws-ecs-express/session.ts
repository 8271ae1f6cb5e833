import { STORAGE_URL } from "../../../deploy/config.ts";
import type { DeployTarget, PlatformSession } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { Aws } from "../aws/aws.ts";
import { readIdentity } from "../aws/aws-context.ts";
import { ensureRepository, imageDigest, imageName, registryLogin } from "../aws/ecr.ts";
import { ensureStorage, isS3, storageUrl } from "../aws/job-bucket.ts";
import { readLock, takeLock } from "../aws/lock.ts";
import {
  dropSecrets,
  listSecrets,
  putSecrets,
  readSecret,
  referTo,
  secretCommand,
  versionOf,
} from "../aws/secrets.ts";
import { architectureOf, bucketRole } from "./configuration.ts";
import type { Context } from "./context.ts";
import { expectedUrl } from "./context.ts";
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
  return {
    preflight: () => preflight(context),
    async inspect() {
      const service = await findOwnService(context);
      return service === undefined ? undefined : toRelease(service);
    },
    environments: () => listServices(context),
    listSecrets: () => listSecrets(context),
    plan: (spec, live) => planRelease(context, spec, live),
    estimate: async (_spec, live) => estimateCost(target.flags, live),
    async predictUrl() {
      const service = await findOwnService(context);
      return (service && publicUrl(service)) ?? expectedUrl(context);
    },
    lock: (holder, request) => takeLock(context, holder, request),
    lockedBy: () => readLock(context),
    async prepare() {
      await ensureRepository(context);
      await prepareRoles(context);
    },
    storageUrl: async () => storageUrl(context),
    hasAccessTo: isS3,
    async ensureStorage(url) {
      const live = (await findOwnService(context))?.activeConfigurations?.[0];
      await ensureStorage(context, bucketRole(context, { env: { [STORAGE_URL]: url } }, live), url);
    },
    takesImage: () => undefined,
    architecture: () => architectureOf(context),
    imageRef: (tag) => imageName(context, tag),
    registryLogin: (use) => registryLogin(context, use),
    imageDigest: (tag) => imageDigest(context, tag),
    putSecrets: (values) => putSecrets(context, values),
    release: (spec) => releaseService(context, spec),
    rollback: (to) => rollbackService(context, to),
    history: () => revisionHistory(context),
    // Fewer than one task is not possible; deleting drains them.
    scaleToZero: async () => undefined,
    remove: () => removeService(context),
    dropSecrets: (names) => dropSecrets(context, names),
    readSecret: (name, ref) => readSecret(context, name, versionOf(ref)),
    secretCommand: (name) => secretCommand(context, name),
    referTo: (name) => referTo(context, name),
    exports: {
      terraform: (spec) => exportTerraform(context, spec),
      cloudformation: (spec) => exportCloudFormation(context, spec),
    },
    logs: (options) => serviceLogs(context, options),
    close: () => aws.close(),
  };
}
