import * as v from "valibot";
import { verifyStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { FOLDER_FLAGS, readDataFolder } from "./data-folder.ts";
import { tellProblems } from "./report.ts";

/** `svc store verify`: checks every line of the data. */
export const verify = defineCommand({
  usage: "verify",
  summary: "Check every line of the data and list what is damaged",
  flags: v.object(FOLDER_FLAGS),
  examples: ["svc store verify"],
  async run({ flags, context }) {
    const { lines, files, problems } = await verifyStore(readDataFolder(flags, context));
    tellProblems(problems, context);
    context.print(
      `${lines} lines in ${files} ${files === 1 ? "file" : "files"}: ${problems.length === 0 ? "no damage" : `${problems.length} damaged`}`,
    );
    return problems.length === 0 ? 0 : 1;
  },
});
