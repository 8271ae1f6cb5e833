import type { Deployment } from "./deployment.ts";
import { DeployError } from "./errors.ts";
import { firstUp } from "./first-up.ts";
import type { Release } from "./platform.ts";

type Asked = Pick<Deployment, "platform" | "session" | "options" | "config" | "tools" | "target">;

/** What tells the place of a deployment apart: its machine, else its region. */
export function whereOf({ platform, target }: Pick<Deployment, "platform" | "target">): string {
  return platform.placeOf?.(target.flags as never) ?? target.region;
}

/** What is deployed; rejects where nothing of this name is, with `consequence` and what to do. */
export async function requireDeployed(deployment: Asked, consequence: string): Promise<Release> {
  const live = await deployment.session.inspect();
  if (live !== undefined) return live;
  throw await notDeployed(deployment, { consequence });
}

/** The error of a command on a service that is not deployed: what an earlier one has left there, and how it is deployed. */
export async function notDeployed(
  deployment: Asked,
  { consequence, outcome = [] }: { readonly consequence?: string; readonly outcome?: readonly string[] } = {},
): Promise<DeployError> {
  const { target, platform, session } = deployment;
  const on = `${platform.name} (${whereOf(deployment)})`;
  // To ask for them may need rights that only a removal does: not where it leaves nothing.
  const beside = (session.keepsFiles && (await session.ownResources?.())) || [];
  const left = beside
    .filter(({ action_type }) => action_type === "noop")
    .map((one) => `The ${one.resource_type} ${one.resource_name} ${one.description}`);
  return new DeployError(
    "not_deployed",
    `"${target.serviceName}" is not deployed on ${on}${consequence === undefined ? "" : `: ${consequence}`}`,
    {
      outcome: [...outcome, ...left].join(". ") || undefined,
      fix: `Deploy it: ${await firstUp(deployment)}; if it has another environment or name, svc deploy list shows those of a name`,
    },
  );
}
