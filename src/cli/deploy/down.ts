import { option } from "../../core/base/option.ts";
import type { DeploymentPlan } from "../../core/models/deployment.ts";
import { down } from "../../deploy/down.ts";
import { whereOf } from "../../deploy/not-deployed.ts";
import { removeExpired } from "./expired.ts";
import * as flags from "./flags.ts";
import { planTable } from "./plan-table.ts";
import { platformCommand } from "./platform-command.ts";
import { tellResult } from "./result.ts";
import { inEach, inTurn } from "./several.ts";

/** `svc deploy down`: removes the service and its secrets; images stay. */
export const downCommand = platformCommand({
  usage: "down",
  summary: "Remove the service and its secrets; keep images and resources that svc did not create",
  flags: {
    ...flags.TARGET_FLAGS,
    ...flags.TIMEOUT,
    expired: option.flag("remove the environments of this project that are over their time, and no other"),
    ...flags.ACCEPT_DATA_LOSS,
    ...flags.REMOVE_KEYS,
    ...flags.BREAK_LOCK,
    ...flags.YES,
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy down --platform cloud-run",
    "svc deploy down --platform cloud-run --env staging --yes",
    "svc deploy down --expired --yes",
  ],
  // That of other environments locks each of them.
  several: (runs, run) => (runs[0]?.given.expired === true ? inEach : inTurn)(runs, run),
  run: async ({ shell, deployment, given, open }) => {
    if (given.expired === true) return removeExpired(shell, deployment, open);
    shell.needYes("svc deploy down");
    const { removed, left, openWork } = await down(deployment, async (plan) => {
      if (shell.json) return true;
      shell.progress.clear();
      shell.print("");
      for (const line of planTable(plan, whereOf(deployment), shell.paint)) shell.print(line);
      shell.print("");
      const fate = deployment.session.keepsFiles ? "are kept" : "are deleted too";
      return shell.ask(
        `Remove ${plan.service_name}${deployment.place === undefined ? "" : ` from ${deployment.place}`}? Its jobs and cases ${hasBucket(plan) ? "stay in the bucket" : fate}.`,
      );
    });
    const { serviceName } = deployment.target;
    // Without a registry, images are on the machine of the service.
    const images = deployment.session.push ? "" : " Its images are still in the registry.";
    return tellResult(shell, {
      document: {
        success: true,
        service_name: serviceName,
        removed,
        left: left.map(({ resource_type, resource_name, description }) => ({
          ...{ resource_type, resource_name, description },
        })),
        open_work: openWork ?? null,
      },
      lines: [
        removed.length === 0
          ? `${serviceName} does not exist: nothing to remove.`
          : `${serviceName} was removed.${images}`,
        ...left.map((one) => `  ${one.resource_type} ${one.resource_name}  ${one.description}`),
      ],
    });
  },
});

function hasBucket({ actions }: DeploymentPlan): boolean {
  return actions.some(({ resource_type }) => resource_type === "bucket");
}
