import type { CliContext } from "../context.ts";
import { runProgram } from "../program.ts";
import { backup } from "./backup.ts";
import { exportData } from "./export.ts";
import { importData } from "./import.ts";
import { prune } from "./prune.ts";
import { repair } from "./repair.ts";
import { restore } from "./restore.ts";
import { verify } from "./verify.ts";

/** `svc store …`: the data of a service. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc store",
      summary: "Back up, restore, export, check, repair and prune the data of a service",
      commands: [exportData, importData, backup, restore, verify, repair, prune],
    },
    argv,
    context,
  );
}
