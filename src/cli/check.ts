import * as v from "valibot";
import { option } from "../core/base/option.ts";
import { defineCommand } from "./command.ts";
import { CONNECTION_FLAGS } from "./job/connection.ts";
import { findController } from "./load-controller.ts";

/** `svc check`: gives all open jobs to the code in this folder, and says which would not continue. */
export const check = defineCommand({
  usage: "check [file]",
  summary: "Check whether the open jobs fit the code in this folder; nothing is run or stored",
  flags: v.object({
    data: option.text(
      "data folder of a service that is stopped (default: SERVICE_DATA_DIR, else data)",
      "folder",
    ),
    jobs: option.text(
      "file with open jobs, as a service sends them at GET /utils/open-jobs; - for standard input",
      "file",
    ),
    code: option.flag("check only that the code can be loaded, and read no jobs"),
    secret: option.list("with --code: a secret that may be missing here; may be repeated", "name"),
    ...CONNECTION_FLAGS,
  }),
  examples: [
    "svc check",
    "svc check --code",
    "svc check --data backups/monday",
    "svc check src/controller.ts --url https://agents.example.com",
    "svc check --jobs open-jobs.jsonl",
  ],
  async run({ args, flags, context }) {
    const file = findController(args[0], context.cwd);
    // Loaded only here, as it loads much of the service.
    if (flags.code) {
      const { checkCode, describeCode } = await import("./check/load-code.ts");
      const found = await checkCode(file, context, flags.secret);
      if (flags.json) context.print(JSON.stringify(found, null, 2));
      else for (const line of describeCode(found)) context.print(line);
      return 0;
    }
    const { checkOpenJobs } = await import("./check/check-open-jobs.ts");
    const { describeReport, exitCodeOf } = await import("./check/report.ts");
    const report = await checkOpenJobs(file, flags, context);
    if (flags.json) context.print(JSON.stringify(report, null, 2));
    else for (const line of describeReport(report)) context.print(line);
    return exitCodeOf(report);
  },
});
