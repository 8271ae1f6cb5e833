import type { ResourceAction } from "../../../core/models/deployment.ts";
import { DeployError } from "../../../deploy/errors.ts";
import { labelChanges } from "../../../deploy/labels.ts";
import type { Release, ReleaseSpec, StoredSecret } from "../../../deploy/platform.ts";
import type { FieldChange } from "../../../deploy/spec-changes.ts";
import { releaseActions, resourceAction } from "../cloud/actions.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { domainChanges } from "../cloud/domain.ts";
import { isPublic, wantedAccess } from "./access.ts";
import { settingChanges } from "./changes.ts";
import type { Context } from "./context.ts";
import { checkDomain, domainsOf } from "./domains.ts";
import { planStorage } from "./job-bucket.ts";
import { hasRepository, REPOSITORY } from "./registry.ts";
import { newServiceBody } from "./release.ts";
import { listSecrets } from "./secrets.ts";
import type { Service } from "./service-types.ts";
import { wantedScaling, wantedTemplate } from "./template.ts";
import { isAllOnLatest } from "./traffic.ts";

/** What a release would change, field by field, after the server has checked that it could be. */
export async function planRelease(
  context: Context,
  spec: ReleaseSpec,
  live?: Release,
): Promise<ResourceAction[]> {
  const google = await context.google();
  const repository = await hasRepository(context);
  const secrets = await listSecrets(context);
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  const known = { ...spec, secrets: withStored(spec, secrets) };
  await checkDomain(context);
  await validate(context, known, service);
  const changes = service === undefined ? [] : await otherChanges(context, known, service);
  return [
    resourceAction("registry", REPOSITORY, repository, "Repository for images in Artifact Registry"),
    ...(await planStorage(context, spec, live)),
    ...releaseActions({ serviceName: context.target.serviceName, spec, live, changes }),
  ];
}

async function otherChanges(context: Context, spec: ReleaseSpec, service: Service): Promise<FieldChange[]> {
  const changes = settingChanges(service, spec, context.target.flags);
  changes.push(...labelChanges(context.target, service.labels ?? {}));
  if (!isAllOnLatest(service))
    changes.push({ field: "traffic", from: "pinned to a revision", to: "newest revision" });
  const wanted = wantedAccess(context.target.flags);
  const access = (await isPublic(context, service)) ? "public" : "private";
  if (wanted !== undefined && wanted !== access) changes.push({ field: "access", from: access, to: wanted });
  changes.push(...(await domainChanges(context.target.flags.domain, domainsOf(context))));
  return changes;
}

/** A dry run on the server. It cannot check what a real run would create first (secrets, image). */
async function validate(context: Context, spec: ReleaseSpec, live: Service | undefined): Promise<void> {
  const google = await context.google();
  const { serviceName, flags } = context.target;
  try {
    if (live === undefined)
      await google.send("run", "POST", `/v2/${context.location}/services`, {
        query: { serviceId: serviceName, validateOnly: true },
        body: newServiceBody(context, { ...spec, secrets: {} }),
        idempotent: true,
      });
    else
      await google.send("run", "PATCH", `/v2/${context.service}`, {
        query: { updateMask: "template,scaling", validateOnly: true },
        body: {
          name: context.service,
          template: wantedTemplate(spec, flags, live.template),
          scaling: wantedScaling(flags, live.scaling),
          etag: live.etag,
        },
        idempotent: true,
      });
  } catch (error) {
    if (!isCloudError(error) || error.code !== "INVALID_ARGUMENT") return;
    if (/image|secret/i.test(error.text)) return;
    throw new DeployError("bad_config", `Cloud Run would refuse "${serviceName}" with this configuration`, {
      detail: error.message,
      outcome: "Nothing was changed",
      cause: error,
    });
  }
}

function withStored(spec: ReleaseSpec, stored: readonly StoredSecret[]): ReleaseSpec["secrets"] {
  const refs: Record<string, StoredSecret | ReleaseSpec["secrets"][string]> = { ...spec.secrets };
  for (const name of Object.keys(refs)) refs[name] ??= stored.find((secret) => secret.name === name);
  return refs;
}
