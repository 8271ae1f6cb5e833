import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { clean } from "../../deploy/clean.ts";
import { EXIT } from "../../deploy/errors.ts";
import { defineCommand } from "../command.ts";
import * as flags from "./flags.ts";
import { tellResult } from "./result.ts";
import { withShell } from "./session.ts";

/** `svc deploy clean`: removes the local files that deployments wrote. */
export const cleanCommand = defineCommand({
  usage: "clean",
  summary: "Remove generated files and logs from .deployment/; edited files are kept",
  flags: v.object({
    ...flags.COMMON,
    all: option.flag("remove the whole folder, including state, configuration and edited files"),
    ...flags.YES,
    ...flags.JSON_FLAG,
  }),
  examples: ["svc deploy clean", "svc deploy clean --all --yes"],
  run: ({ flags: given, context }) =>
    withShell(context, given, { verb: "clean" }, async (shell) => {
      const all = given.all === true;
      if (
        all &&
        !(await shell.ask(
          "Remove .deployment/ including your configuration and the state of all deployments?",
        ))
      )
        return EXIT.failed;
      const { removed, kept } = await clean(context.cwd, { all });
      return tellResult(shell, {
        document: { success: true, removed, kept },
        lines: [
          removed.length === 0 ? "Nothing to remove." : `Removed: ${removed.join(", ")}`,
          ...(kept.length > 0 ? [`Kept: ${kept.join(", ")}`] : []),
        ],
      });
    }),
});
