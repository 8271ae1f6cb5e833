import * as v from "valibot";
import { EXIT } from "../../deploy/errors.ts";
import { rollback } from "../../deploy/rollback.ts";
import { defineCommand } from "../command.ts";
import { facts, nextCommand } from "./facts.ts";
import * as flags from "./flags.ts";
import type { PlatformCommand } from "./main.ts";
import { openFrom, withShell } from "./session.ts";

/** `svc deploy rollback`: makes an earlier release serve again. */
export const rollbackCommand: PlatformCommand = ({ entries, platform }) =>
  defineCommand({
    usage: "rollback",
    summary: "Roll back to the previous release, or to a named revision",
    flags: v.object({
      ...flags.TARGET_FLAGS,
      to: flags.text("revision to roll back to (default: the previous one)", "revision"),
      ...flags.TIMEOUT,
      ...flags.ACCEPT_DATA_LOSS,
      ...flags.YES,
      ...flags.VERBOSE,
      ...flags.JSON_FLAG,
      ...entries,
    }),
    examples: [
      "svc deploy rollback --platform cloud-run",
      "svc deploy rollback --platform cloud-run --to hello-dev-00002-abc",
    ],
    run: ({ flags: given, context }) =>
      withShell(context, given, async (shell) => {
        const deployment = await openFrom(shell, platform(), given, "svc deploy rollback");
        try {
          const outcome = await rollback(deployment, {
            to: given.to as string | undefined,
            consent: (from, to) =>
              shell.ask(
                `Roll back from revision ${from.revision} to ${to.revision} (${to.image ?? "image unknown"})?`,
              ),
          });
          shell.progress.clear();
          const { from, release, health, openWork } = outcome;
          if (shell.json)
            shell.document({
              success: true,
              from: from.revision,
              revision: release.revision,
              image: release.image,
              health,
              open_work: openWork ?? null,
            });
          else {
            shell.print(shell.paint("bold", `Revision ${release.revision} is serving again`));
            const lines = facts(shell.paint, [
              ["URL", release.url],
              ["Health", health.status],
              ["Before", from.revision],
              ["Next", `${nextCommand("up", deployment)} deploys the newest version again`],
            ]);
            for (const line of lines) shell.print(line);
          }
          return EXIT.done;
        } finally {
          await deployment.close();
        }
      }),
  });
