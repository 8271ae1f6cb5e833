import { isCloudError } from "../cloud/cloud-error.ts";
import type { Context } from "./context.ts";
import type { CloudRunFlags } from "./flags.ts";
import { isReachable } from "./network.ts";
import { dropGrant, ensureGrant, type Grant, isGranted } from "./policy.ts";
import { publicUrl } from "./release-of.ts";
import { changeService, finishChange } from "./service.ts";
import type { Operation, Service } from "./service-types.ts";

/** Whether anyone may call the service. */
export async function isPublic(context: Context, service: Service): Promise<boolean> {
  return service.invokerIamDisabled === true || isGranted(context, everyone(context));
}

/**
 * Whether a new service may be made public by switching its invoker check off: the documented way, and the
 * only one that domain-restricted sharing leaves open. Some organizations forbid it, so the server is asked
 * first.
 */
export async function mayDisableInvokerCheck(context: Context, body: Service): Promise<boolean> {
  const google = await context.google();
  try {
    await google.send<Operation>("run", "POST", `/v2/${context.location}/services`, {
      query: { serviceId: context.target.serviceName, validateOnly: true },
      body: { ...body, invokerIamDisabled: true },
      idempotent: true,
    });
    return true;
  } catch (error) {
    if (isCloudError(error) && (error.status === 400 || error.status === 403)) return false;
    throw error;
  }
}

/** The requested access, if an option sets it; otherwise it stays unchanged. */
export function wantedAccess(flags: CloudRunFlags): "public" | "private" | undefined {
  if (flags.private) return "private";
  return flags.public ? "public" : undefined;
}

/** Sets the requested access of a service; a new one is public by default. */
export async function ensureAccess(context: Context, service: Service, isNew: boolean): Promise<void> {
  const wanted = wantedAccess(context.target.flags) ?? (isNew ? "public" : undefined);
  if (wanted === "public") await ensurePublic(context, service);
  if (wanted === "private") await ensurePrivate(context, service);
}

async function ensurePrivate(context: Context, service: Service): Promise<void> {
  if (service.invokerIamDisabled)
    await changeService(
      context,
      "service.private",
      (live) => (live.invokerIamDisabled ? { fields: { invokerIamDisabled: false } } : undefined),
      finishChange,
    );
  await dropGrant(context, everyone(context));
}

/**
 * Lets anyone call the service. If the organization forbids it, this is reported and the deployment
 * continues.
 */
async function ensurePublic(context: Context, service: Service): Promise<boolean> {
  if (service.invokerIamDisabled) return true;
  try {
    await ensureGrant(context, everyone(context));
    return true;
  } catch (error) {
    if (!isCloudError(error) || (error.status !== 400 && error.status !== 403)) throw error;
    const { serviceName, region } = context.target;
    context.tools.report(
      `The service stays private: ${error.text} A user with the permission can make it public with: gcloud run services add-iam-policy-binding ${serviceName} --region ${region} --project ${context.project} --member allUsers --role roles/run.invoker (it stays private until then)`,
    );
    return false;
  }
}

/** Headers that authorize a health check of a service that is not public. */
export async function invokerHeaders(context: Context): Promise<Record<string, string>> {
  const { token } = await invoker(context);
  // This header leaves `Authorization` free for the service itself.
  return token === undefined ? {} : { "x-serverless-authorization": `Bearer ${token}` };
}

/** Why a service cannot be called from here with these credentials; undefined if it can be. */
export async function invokerProblem(context: Context): Promise<string | undefined> {
  const google = await context.google();
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  if (!isReachable(service?.ingress))
    return "the service takes requests from inside only (its ingress), and this machine may be outside";
  const { needed, token } = await invoker(context);
  if (!needed || token !== undefined) return undefined;
  const { identity } = google;
  return `the service is private, and the ${identity.source} cannot issue an identity token (use gcloud auth login, or give its service account roles/iam.serviceAccountOpenIdTokenCreator on itself)`;
}

async function invoker(
  context: Context,
): Promise<{ readonly needed: boolean; readonly token?: string | undefined }> {
  const google = await context.google();
  const service = await google.find<Service>("run", `/v2/${context.service}`);
  if (service === undefined || (await isPublic(context, service))) return { needed: false };
  const audience = service.uri ?? publicUrl(context, service);
  return {
    needed: true,
    token: audience === undefined ? undefined : await google.identity.idToken(audience),
  };
}

function everyone(context: Context): Grant {
  return {
    api: "run",
    resource: `/v2/${context.service}`,
    role: "roles/run.invoker",
    member: "allUsers",
    step: "service.public",
  };
}
