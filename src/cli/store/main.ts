import { FolderInUseError } from "../../core/store/maintenance.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { runProgram } from "../program.ts";
import { reportError } from "../report-error.ts";
import { backup } from "./backup.ts";
import { exportData } from "./export.ts";
import { importData } from "./import.ts";
import { move } from "./move.ts";
import { prune } from "./prune.ts";
import { repair } from "./repair.ts";
import { restore } from "./restore.ts";
import { verify } from "./verify.ts";

/** `svc store …`: the data of a service. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc store",
      summary: "Back up, restore, move, export, check, repair and prune the data of a service",
      commands: [exportData, importData, backup, restore, move, verify, repair, prune],
      report: (error, name, at) => reportError(explain(error), name, at),
    },
    argv,
    context,
  );
}

function explain(error: unknown): unknown {
  if (!(error instanceof FolderInUseError)) return error;
  const detail =
    "Stop that service first, or work on a copy of its data: `svc store backup <dir>` makes one while it runs.";
  return new CliError(error.message, { detail, cause: error });
}
