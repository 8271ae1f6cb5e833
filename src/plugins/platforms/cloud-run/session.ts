import type { BuildContext, DeployTarget, PlatformSession, Release } from "../../../deploy/platform.ts";
import type { DeployTools } from "../../../deploy/tools.ts";
import { domainUrl, withDomain } from "../cloud/domain.ts";
import { invokerHeaders, invokerProblem } from "./access.ts";
import { enableApis, readProjectNumber } from "./apis.ts";
import { isCloudStorage } from "./buckets.ts";
import { buildRemotely } from "./cloud-build.ts";
import { type Context, requireProject } from "./context.ts";
import { findIdentity } from "./credentials.ts";
import { domainsOf } from "./domains.ts";
import { type CloudRunFlags, checkFlags } from "./flags.ts";
import { Google } from "./google.ts";
import { ensureStorage, storageUrl } from "./job-bucket.ts";
import { exportKnative } from "./knative.ts";
import { listServices } from "./list.ts";
import { lockOf } from "./lock.ts";
import { serviceLogs } from "./logs.ts";
import { planRelease } from "./plan.ts";
import { preflight } from "./preflight.ts";
import { estimateCost } from "./price.ts";
import { ensureRepository, imageName, registryLogin } from "./registry.ts";
import { promoteNewest, releaseService } from "./release.ts";
import { servingRelease } from "./release-of.ts";
import { removeService, scaleToZero } from "./remove.ts";
import { revisionHistory, rollbackTo } from "./rollback.ts";
import { dropSecrets, listSecrets, putSecrets, readSecret, referTo, secretCommand } from "./secrets.ts";
import type { Service } from "./service-types.ts";
import { exportTerraform } from "./terraform.ts";

/** One target on Cloud Run. */
export function openSession(target: DeployTarget<CloudRunFlags>, tools: DeployTools): PlatformSession {
  checkFlags(target.flags);
  const context = createContext(target, tools);
  const { domain } = target.flags;
  const domains = domainsOf(context);
  const addressed = <R extends Release | undefined>(release: R) => withDomain(release, domain, domains);
  const findService = async () => (await context.google()).find<Service>("run", `/v2/${context.service}`);
  return {
    preflight: () => preflight(context),
    async inspect() {
      const service = await findService();
      return service === undefined ? undefined : addressed(await servingRelease(context, service));
    },
    environments: () => listServices(context),
    listSecrets: () => listSecrets(context),
    plan: (spec, live) => planRelease(context, spec, live),
    async estimate(_spec, live) {
      const service = live === undefined ? undefined : await findService();
      const container = service?.template?.containers?.[0];
      if (service === undefined) return estimateCost(target.flags, target.region);
      return estimateCost(target.flags, target.region, {
        ...(container ? { container } : {}),
        ...(service.scaling ? { scaling: service.scaling } : {}),
      });
    },
    async predictUrl(live) {
      const own = await domainUrl(domain, live?.env?.SERVICE_PUBLIC_URL, domains);
      if (own !== undefined) return own;
      const number = await readProjectNumber(context);
      return number === undefined
        ? undefined
        : `https://${target.serviceName}-${number}.${target.region}.run.app`;
    },
    ...lockOf(context),
    async prepare() {
      await enableApis(context);
      await ensureRepository(context);
    },
    storageUrl: async () => storageUrl(context),
    hasAccessTo: isCloudStorage,
    ensureStorage: (url) => ensureStorage(context, url),
    takesImage: (ref) =>
      /^(?:[a-z0-9-]+-docker\.pkg\.dev|(?:[a-z]+\.)?gcr\.io|docker\.io)\//.test(ref)
        ? undefined
        : "Cloud Run takes images of Artifact Registry (…-docker.pkg.dev), gcr.io and docker.io",
    imageRef: (tag) => imageName(context, tag),
    registryLogin: (use) => registryLogin(context, use),
    ...(target.flags.useCloudBuild
      ? { build: (build: BuildContext, ref: string) => buildRemotely(context, build, ref) }
      : {}),
    putSecrets: (values) => putSecrets(context, values),
    release: async (spec) => addressed(await releaseService(context, spec)),
    promote: async (release) => addressed(await promoteNewest(context, release)),
    rollback: async (to) => addressed(await rollbackTo(context, to)),
    history: () => revisionHistory(context),
    scaleToZero: () => scaleToZero(context),
    remove: () => removeService(context),
    dropSecrets: (names) => dropSecrets(context, names),
    readSecret: (name, ref) => readSecret(context, name, ref),
    secretCommand: (name) => secretCommand(context, name),
    referTo: (name) => referTo(context, name),
    exports: {
      "cloud-run": (spec) => exportKnative(context, spec),
      terraform: (spec) => exportTerraform(context, spec),
    },
    logs: (options) => serviceLogs(context, options),
    probeHeaders: () => invokerHeaders(context),
    probeBlocked: () => invokerProblem(context),
  };
}

function createContext(target: DeployTarget<CloudRunFlags>, tools: DeployTools): Context {
  const project = requireProject(target);
  const location = `projects/${project}/locations/${target.region}`;
  let google: Promise<Google> | undefined;
  return {
    target,
    tools,
    project,
    location,
    service: `${location}/services/${target.serviceName}`,
    google() {
      google ??= findIdentity(tools).then((identity) => new Google(tools, identity));
      return google;
    },
  };
}
