import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { list } from "./list.ts";
import { pause, resume, runNow } from "./steer.ts";

/** `svc schedule …`: schedules of a running service. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc schedule",
      summary: "List, run, pause and resume the schedules of a running service",
      commands: [list, runNow, pause, resume],
    },
    argv,
    withPrintable(context),
  );
}
