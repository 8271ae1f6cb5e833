import type { DeploymentPlan } from "../../core/models/deployment.ts";
import { down } from "../../deploy/down.ts";
import { EXIT } from "../../deploy/errors.ts";
import { removeExpired } from "./expired.ts";
import * as flags from "./flags.ts";
import { planTable } from "./plan-table.ts";
import { platformCommand } from "./platform-command.ts";
import { inEach, inTurn } from "./several.ts";

/** `svc deploy down`: removes the service and its secrets; images stay. */
export const downCommand = platformCommand({
  usage: "down",
  summary: "Remove the service and its secrets; keep images and resources that svc did not create",
  flags: {
    ...flags.TARGET_FLAGS,
    ...flags.TIMEOUT,
    expired: flags.switchOff(
      "remove the environments of this project that are over their time, and no other",
    ),
    ...flags.ACCEPT_DATA_LOSS,
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
    let keeps = false;
    const { removed, openWork } = await down(deployment, async (plan) => {
      keeps = hasBucket(plan);
      if (shell.json) return true;
      shell.progress.clear();
      shell.print("");
      for (const line of planTable(plan, shell.paint)) shell.print(line);
      shell.print("");
      const fate = deployment.session.keepsFiles ? "are kept" : "are deleted too";
      return shell.ask(
        `Remove ${plan.service_name}${deployment.place === undefined ? "" : ` from ${deployment.place}`}? Its jobs and cases ${hasBucket(plan) ? "stay in the bucket" : fate}.`,
      );
    });
    shell.progress.clear();
    const { serviceName } = deployment.target;
    if (shell.json)
      shell.document({
        success: true,
        service_name: serviceName,
        removed,
        open_work: openWork ?? null,
      });
    else if (removed.length === 0) shell.print(`${serviceName} does not exist: nothing to remove.`);
    else {
      const files = deployment.session.keepsFiles ? " Its jobs and cases are kept." : "";
      const jobs = keeps ? " Its jobs stay in the bucket." : files;
      // Without a registry, images are on the machine of the service.
      const images = deployment.session.push ? "" : " Its images are still in the registry.";
      shell.print(`${serviceName} was removed.${images}${jobs}`);
    }
    return EXIT.done;
  },
});

function hasBucket({ actions }: DeploymentPlan): boolean {
  return actions.some(({ resource_type }) => resource_type === "bucket");
}
