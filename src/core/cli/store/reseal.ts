import * as v from "valibot";
import { resealStore } from "../../store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { FOLDER_FLAGS, readDataFolder } from "./data-folder.ts";
import { tellProblems } from "./problems.ts";

/** `svc store reseal`: accepts data that was edited by hand. */
export const reseal = defineCommand({
  usage: "reseal",
  summary: "Accept data that was edited by hand; the files as they were are kept as *.old",
  flags: v.object(FOLDER_FLAGS),
  examples: ["svc store reseal"],
  async run({ flags, context }) {
    const { lines, edited, problems } = await resealStore(readDataFolder(flags, context));
    tellProblems(problems, context);
    context.print(`${lines} lines kept, ${edited} of them edited, ${problems.length} left out`);
    return 0;
  },
});
