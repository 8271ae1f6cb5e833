import * as v from "valibot";
import { parsed, sumsOf } from "../../core/store/content.ts";
import { verifyStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { readDataFolder } from "./data-folder.ts";
import { tellProblems, tellSums } from "./report.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

/** `svc store verify`: checks every line of the data. */
export const verify = defineCommand({
  usage: "verify",
  summary: "Check every line of the data and list what is damaged",
  flags: v.object(STORE_FLAGS),
  examples: ["svc store verify"],
  async run({ flags, context }) {
    const sums = await withRemote(flags, context, async (place) => ({
      of: place.name,
      found: await place.read((content) => sumsOf(parsed(content))),
    }));
    if (sums !== undefined) {
      tellSums(sums.found, sums.of, context);
      return 0;
    }
    const { lines, files, problems } = await verifyStore(readDataFolder(flags, context));
    tellProblems(problems, context);
    context.print(
      `${lines} lines in ${files} ${files === 1 ? "file" : "files"}: ${problems.length === 0 ? "no damage" : `${problems.length} damaged`}`,
    );
    return problems.length === 0 ? 0 : 1;
  },
});
