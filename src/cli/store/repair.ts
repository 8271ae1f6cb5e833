import * as v from "valibot";
import { DAMAGED, describeAffected, repairStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { FOLDER_FLAGS, readDataFolder } from "./data-folder.ts";
import { tellProblems } from "./report.ts";

/** `svc store repair`: keeps the intact data. */
export const repair = defineCommand({
  usage: "repair",
  summary: "Keep the intact part of damaged data, report what is lost, and hold the affected jobs",
  flags: v.object(FOLDER_FLAGS),
  examples: ["svc store repair"],
  async run({ flags, context }) {
    const { problems, affected, held, isUncertain } = await repairStore(readDataFolder(flags, context));
    if (problems.length === 0 && affected.length === 0) {
      context.print("No damage found; nothing was changed.");
      return 0;
    }
    tellProblems(problems, context);
    for (const one of affected) {
      const job = one.job === null || one.table === "Job" ? "" : ` (job "${one.job}")`;
      context.print(`${describeAffected(one)}${job}`);
    }
    if (isUncertain)
      context.print("Some lost data cannot be identified: every job that has not ended is held.");
    if (affected.length === 0 && !isUncertain) context.print("No jobs, cases or log entries are lost.");
    context.print(`The damaged files and a report are in the folder "${DAMAGED}" of the data folder.`);
    for (const id of held) context.print(`Held: job "${id}"`);
    if (held.length > 0)
      context.print(
        "The next start marks held jobs as failed. To release one, use svc job retry <job>, or Retry in /admin.",
      );
    return 0;
  },
});
