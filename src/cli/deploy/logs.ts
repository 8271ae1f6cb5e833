import * as v from "valibot";
import { countOf } from "../../core/base/count-of.ts";
import { needed, option } from "../../core/base/option.ts";
import { DeployError, EXIT } from "../../deploy/errors.ts";
import { requireDeployed } from "../../deploy/not-deployed.ts";
import * as flags from "./flags.ts";
import { platformCommand } from "./platform-command.ts";
import { together } from "./several.ts";

/** `svc deploy logs`: the service's log. */
export const logsCommand = platformCommand({
  usage: "logs",
  summary: "Show the service's log",
  flags: {
    ...flags.TARGET_FLAGS,
    since: v.optional(needed.amount("how far back to read", "minutes"), 60),
    follow: option.flag("keep printing new lines until you stop it"),
    ...flags.JSON_FLAG,
  },
  examples: [
    "svc deploy logs --platform cloud-run --since 10",
    "svc deploy logs --platform cloud-run --follow",
  ],
  several: together,
  run: async ({ shell, deployment, given }) => {
    const { session, tools, limits } = deployment;
    if (!session.logs)
      throw new DeployError(
        "failed",
        `Platform ${deployment.platform.name} does not support reading logs through svc`,
        {
          fix: "Look for them in the platform's own console",
        },
      );
    await requireDeployed(deployment, "there is no log");
    const since = new Date(tools.now().getTime() - Number(given.since) * 60_000);
    const lines: string[] = [];
    let any = false;
    try {
      for await (const line of session.logs({ since, follow: given.follow === true && !shell.json })) {
        any = true;
        if (shell.json) lines.push(line);
        else shell.print(line);
      }
    } catch (error) {
      // Ctrl-C is the normal way to stop following.
      if (!(given.follow === true && limits.signal.aborted)) throw error;
    }
    if (!any && !shell.json)
      shell.context.note(
        `The service wrote nothing in the last ${countOf(Number(given.since), "minute")}; --since looks further back`,
      );
    if (shell.json) shell.document({ service_name: deployment.target.serviceName, lines });
    return EXIT.done;
  },
});
