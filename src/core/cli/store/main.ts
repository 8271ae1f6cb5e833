import type { CliContext } from "../context.ts";
import { runProgram } from "../program.ts";
import { exportData } from "./export.ts";
import { prune } from "./prune.ts";
import { reseal } from "./reseal.ts";
import { verify } from "./verify.ts";

/** `svc store …`: the data folder of a service that is not running. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc store",
      summary: "Export, check and accept the data folder of a stopped service",
      commands: [exportData, verify, reseal, prune],
    },
    argv,
    context,
  );
}
