import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { CHECKED } from "../check/report.ts";
import { defineCommand } from "../command.ts";
import { readDataFolder } from "../store/data-folder.ts";

/** `svc job replay`: calls a job's handler with what is recorded of it. */
export const replay = defineCommand({
  usage: "replay <job> [file]",
  summary: "Call a job's handler with its recorded results, without running a step or storing anything",
  flags: v.object({
    data: option.text("data folder that the job is in (default: SERVICE_DATA_DIR, else data)", "folder"),
    json: option.flag("print JSON"),
  }),
  examples: [
    "svc job replay job-1f9c2a77",
    "node --inspect-brk node_modules/agent-control-service/dist/cli.js job replay job-1f9c2a77",
  ],
  async run({ args, flags, context }) {
    const [id, file] = args as [string, string | undefined];
    // Loaded only here: most commands about jobs need nothing of the service's code.
    const { describeReplay, replayJob } = await import("./replay-job.ts");
    const report = await replayJob(
      { id, file, folder: readDataFolder({ dataDir: flags.data }, context) },
      context,
    );
    if (flags.json) context.print(JSON.stringify(report, null, 2));
    else for (const text of describeReplay(report, context)) context.print(text);
    if (report.verdict === "fits") return CHECKED.fit;
    return report.verdict === "unsure" ? CHECKED.unsure : CHECKED.problems;
  },
});
