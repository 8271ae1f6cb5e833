import { isDeployError } from "../../../deploy/errors.ts";
import type { Finding } from "../../../deploy/platform.ts";
import { isCloudError } from "../cloud/cloud-error.ts";
import { foreignName, rangeFindings } from "../cloud/findings.ts";
import { isOwn } from "../cloud/ownership.ts";
import { neededApis, readApi } from "./apis.ts";
import type { Context } from "./context.ts";
import { googleDefaults } from "./gcloud-config.ts";
import { isDisabledApi } from "./google-error.ts";
import { firstTimePermissions, mayActAs, missingPermissions, neededPermissions } from "./permissions.ts";
import { runtimeAccount } from "./secrets.ts";
import type { Service } from "./service-types.ts";
import { idlesBetweenRequests } from "./template.ts";

/** Checks everything that could prevent a deployment, and changes nothing. */
export async function preflight(context: Context): Promise<Finding[]> {
  const identity = await identityFinding(context);
  if (identity.level === "error") return [identity];
  const enabled = await apiFindings(context);
  return [
    identity,
    projectFinding(context),
    ...(await scalingFindings(context)),
    ...enabled,
    ...(await permissionFindings(
      context,
      enabled.some((finding) => finding.level === "warning"),
    )),
    ...(await regionFindings(context)),
    ...(await billingFindings(context)),
    ...(await ownershipFindings(context)),
  ];
}

async function identityFinding(context: Context): Promise<Finding> {
  try {
    const { identity } = await context.google();
    await identity.token();
    return { level: "ok", subject: "credentials", message: `from ${identity.source}` };
  } catch (error) {
    if (!isDeployError(error)) throw error;
    const message = error.detail === undefined ? error.message : `${error.message}: ${error.detail}`;
    return { level: "error", subject: "credentials", message, ...(error.fix ? { fix: error.fix } : {}) };
  }
}

function projectFinding(context: Context): Finding {
  const found = googleDefaults(context.tools.env).projectId;
  const source = found?.value === context.project ? found.source : "--project-id";
  return { level: "ok", subject: "project", message: `${context.project}, from ${source}` };
}

async function scalingFindings(context: Context): Promise<Finding[]> {
  const { flags } = context.target;
  const { minInstances = 0, maxInstances, alwaysOnCpu, scaleToZero } = flags;
  const findings = rangeFindings({ minInstances, maxInstances });
  if (scaleToZero || (!alwaysOnCpu && (await runsCheaply(context))))
    findings.push({
      level: "warning",
      subject: "cpu",
      message:
        "instances get CPU only during a request: after it jobs pause, and timers and deadlines do not fire",
      fix: "Use --always-on-cpu --min-instances 1 if jobs must run by themselves",
    });
  return findings;
}

/**
 * Whether the existing service gets CPU only during requests; unreadable settings are reported by other
 * findings.
 */
async function runsCheaply(context: Context): Promise<boolean> {
  const google = await context.google();
  try {
    const service = await google.find<Service>("run", `/v2/${context.service}`);
    return idlesBetweenRequests(service?.template?.containers?.[0]?.resources);
  } catch (error) {
    if (isCloudError(error)) return false;
    throw error;
  }
}

async function apiFindings(context: Context): Promise<Finding[]> {
  return Promise.all(
    neededApis(context).map(async (name): Promise<Finding> => {
      try {
        const { enabled } = await readApi(context, name);
        if (enabled) return { level: "ok", subject: name, message: "enabled" };
        return { level: "warning", subject: name, message: "disabled; `up` enables it" };
      } catch (error) {
        if (!isCloudError(error)) throw error;
        if (error.status === 404)
          return {
            level: "error",
            subject: "project",
            message: `"${context.project}" was not found: ${error.text}`,
            fix: "Set another with --project-id",
          };
        if (error.status !== 403) throw error;
        if (isDisabledApi(error))
          return {
            level: "error",
            subject: "serviceusage.googleapis.com",
            message: error.text,
            fix: `gcloud services enable serviceusage.googleapis.com --project ${context.project}`,
          };
        return { level: "warning", subject: name, message: `could not be checked: ${error.text}` };
      }
    }),
  );
}

async function permissionFindings(context: Context, fresh: boolean): Promise<Finding[]> {
  try {
    const always = neededPermissions(context);
    const first = firstTimePermissions(context);
    const missing = await missingPermissions(context, [...always, ...first]);
    const findings = missing.map(
      (permission): Finding => ({
        level: always.includes(permission) || fresh ? "error" : "warning",
        subject: "permission",
        message: `${permission} is missing in project ${context.project}`,
        fix: "Have an owner of the project grant you a role with it; the documentation lists one to paste",
      }),
    );
    if (findings.length === 0)
      findings.push({
        level: "ok",
        subject: "permissions",
        message: `all ${always.length + first.length} granted`,
      });
    return [...findings, ...(await actAsFindings(context))];
  } catch (error) {
    return [unseen("permissions", error)];
  }
}

async function actAsFindings(context: Context): Promise<Finding[]> {
  let account: string | undefined;
  try {
    account = await runtimeAccount(context);
    if (account === undefined) return [];
    if (await mayActAs(context, account))
      return [{ level: "ok", subject: "service account", message: account }];
  } catch (error) {
    return [unseen("service account", error)];
  }
  return [
    {
      level: "error",
      subject: "service account",
      message: `iam.serviceAccounts.actAs is missing on ${account}`,
      fix: `gcloud iam service-accounts add-iam-policy-binding ${account} --member YOU --role roles/iam.serviceAccountUser`,
    },
  ];
}

/** Whether the region exists: a lock is written only where it does. */
export async function regionFindings(context: Context): Promise<Finding[]> {
  const google = await context.google();
  const { region } = context.target;
  try {
    const { locations = [] } = await google.get<{ locations?: { locationId?: string }[] }>(
      "run",
      `/v1/projects/${context.project}/locations`,
    );
    const ids = locations.flatMap(({ locationId }) => locationId ?? []);
    if (ids.length === 0 || ids.includes(region))
      return [{ level: "ok", subject: "region", message: region }];
    const near = ids.filter((id) => id.split("-")[0] === region.split("-")[0]);
    return [
      {
        level: "error",
        subject: "region",
        message: `"${region}" is not a region of Cloud Run`,
        fix: `Choose another with --region, such as ${(near.length > 0 ? near : ids).slice(0, 5).join(", ")}`,
      },
    ];
  } catch (error) {
    // The first `up` enables the API: a region that does not exist is refused then.
    if (isCloudError(error) && isDisabledApi(error))
      return [
        { level: "ok", subject: "region", message: `${region}, checked once run.googleapis.com is enabled` },
      ];
    return [unseen("region", error)];
  }
}

async function billingFindings(context: Context): Promise<Finding[]> {
  const google = await context.google();
  try {
    const info = await google.get<{ billingEnabled?: boolean }>(
      "cloudbilling",
      `/v1/projects/${context.project}/billingInfo`,
    );
    if (info.billingEnabled !== false) return [];
    return [
      {
        level: "error",
        subject: "billing",
        message: `project ${context.project} has no billing account`,
        fix: `gcloud billing projects link ${context.project} --billing-account ACCOUNT`,
      },
    ];
  } catch {
    // Reported only if it can be read and is off.
    return [];
  }
}

async function ownershipFindings(context: Context): Promise<Finding[]> {
  const google = await context.google();
  try {
    const service = await google.find<Service>("run", `/v2/${context.service}`);
    if (service === undefined || isOwn(service.labels, context.target)) return [];
    return [foreignName(context.target)];
  } catch (error) {
    if (isCloudError(error) && error.status === 403) return [];
    throw error;
  }
}

/** A check that cannot be made does not stop a deployment: the calls themselves will show it. */
function unseen(subject: string, error: unknown): Finding {
  if (!isCloudError(error)) throw error;
  return { level: "warning", subject, message: `could not be checked: ${error.text}` };
}
