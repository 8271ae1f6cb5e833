import { EXIT } from "../../deploy/errors.ts";
import { describeOpenWork, mayLose } from "../../deploy/open-work.ts";
import { prepare } from "../../deploy/plan.ts";
import * as flags from "./flags.ts";
import { planTable } from "./plan-table.ts";
import { platformCommand } from "./platform-command.ts";

/** `svc deploy plan`: shows what `up` would do, and changes nothing. */
export const planCommand = platformCommand({
  usage: "plan",
  summary: "Check the configuration and show what a deployment would do, without changing anything",
  flags: {
    ...flags.TARGET_FLAGS,
    ...flags.RELEASE_FLAGS,
    detailedExitcode: flags.switchOff("exit with 2 if there are changes, with 0 if there are none"),
    ...flags.VERBOSE,
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy plan --platform cloud-run",
    "svc deploy plan --platform cloud-run --env prod --detailed-exitcode",
  ],
  run: async ({ shell, deployment, given }) => {
    const { plan, changes, drift, findings, openWork } = await prepare(deployment);
    if (mayLose(openWork))
      shell.emit({
        type: "notice",
        level: "warning",
        message: `${describeOpenWork(openWork, plan.service_name)}; svc deploy up will require --accept-data-loss`,
      });
    shell.progress.clear();
    if (shell.json) shell.document({ ...plan, changes, drift, findings, open_work: openWork ?? null });
    else {
      shell.print("");
      for (const line of planTable(plan, shell.paint)) shell.print(line);
      shell.print("");
      shell.print(changes ? "Apply it with svc deploy up." : "Nothing to do: everything is up to date.");
    }
    return given.detailedExitcode === true && changes ? EXIT.changesPending : EXIT.done;
  },
});
