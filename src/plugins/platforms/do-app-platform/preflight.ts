import type { Finding } from "../../../deploy/platform.ts";
import { foreignName, rangeFindings } from "../cloud/findings.ts";
import { ownService } from "./app-spec.ts";
import { findApp } from "./apps.ts";
import type { Context } from "./context.ts";
import { isOwnApp } from "./marker.ts";
import { appRegionMeant } from "./regions.ts";
import { readSizes } from "./sizes.ts";

/** Checks everything that could prevent a deployment, and changes nothing. */
export async function preflight(context: Context): Promise<Finding[]> {
  return [
    { level: "ok", subject: "credentials", message: `token from ${context.tokenSource}` },
    await accountFinding(context),
    await regionFinding(context),
    registryFinding(context),
    ...(await sizeFindings(context)),
    ...(await nameFindings(context)),
  ];
}

async function accountFinding({ api }: Context): Promise<Finding> {
  const { account } = await api.get<{ account: { status: string; status_message?: string; email?: string } }>(
    "/v2/account",
  );
  if (account.status === "active")
    return { level: "ok", subject: "account", message: account.email ?? "active" };
  return {
    level: account.status === "locked" ? "error" : "warning",
    subject: "account",
    message: `the account is ${account.status}${account.status_message ? `: ${account.status_message}` : ""}`,
    fix: "See https://cloud.digitalocean.com/account",
  };
}

async function regionFinding({ api, target }: Context): Promise<Finding> {
  const { regions = [] } = await api.get<{ regions?: { slug: string; disabled?: boolean }[] }>(
    "/v2/apps/regions",
  );
  const open = regions.filter(({ disabled }) => !disabled).map(({ slug }) => slug);
  if (open.includes(target.region)) return { level: "ok", subject: "region", message: target.region };
  const meant = appRegionMeant(target.region);
  return {
    level: "error",
    subject: "region",
    message: `"${target.region}" is not a region of App Platform (those are ${open.join(", ")})`,
    fix: open.includes(meant)
      ? `Use --region ${meant}: apps are placed by city, not by data center`
      : `Choose another with --region, such as ${open[0] ?? "nyc"}`,
  };
}

function registryFinding({ registry }: Context): Finding {
  if (registry.problem)
    return {
      level: "error",
      subject: "registry",
      message: `${registry.problem.message}: ${registry.problem.detail}`,
      ...(registry.problem.fix ? { fix: registry.problem.fix } : {}),
    };
  if (registry.exists) return { level: "ok", subject: "registry", message: registry.name };
  return {
    level: "warning",
    subject: "registry",
    message: `the account has none; \`up\` creates "${registry.name}"`,
  };
}

async function sizeFindings(context: Context): Promise<Finding[]> {
  const { api, target } = context;
  const { size, minInstances = 1, maxInstances = minInstances, scaleAtCpu } = target.flags;
  const live = ownService((await findApp(context))?.spec);
  const findings = rangeFindings(target.flags);
  if (scaleAtCpu !== undefined && maxInstances <= minInstances && !live?.autoscaling)
    findings.push({
      level: "error",
      subject: "instances",
      message: `--scale-at-cpu ${scaleAtCpu} has no effect on a fixed number of instances`,
      fix: "Add --max-instances",
    });
  const slug = size ?? live?.instance_size_slug ?? "apps-s-1vcpu-0.5gb";
  const sizes = await readSizes(api);
  const known = sizes.find((one) => one.slug === slug);
  if (known === undefined)
    return [
      ...findings,
      {
        level: "error",
        subject: "size",
        message: `"${slug}" is not a size of App Platform`,
        fix: `Choose one with --size: ${sizes.map((one) => one.slug).join(", ")}`,
      },
    ];
  if (known.single_instance_only && maxInstances > 1)
    findings.push({
      level: "error",
      subject: "instances",
      message: `size ${slug} runs one instance only`,
      fix: "Choose a larger --size",
    });
  else if (!known.scalable && maxInstances > minInstances)
    findings.push({
      level: "error",
      subject: "instances",
      message: `size ${slug} has a fixed number of instances`,
      fix: "Choose a dedicated --size (apps-d-…), or the same --min-instances and --max-instances",
    });
  return findings;
}

async function nameFindings(context: Context): Promise<Finding[]> {
  const app = await findApp(context);
  if (app === undefined || isOwnApp(ownService(app.spec)?.envs, context.target)) return [];
  return [foreignName(context.target, "an app")];
}
