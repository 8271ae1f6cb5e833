import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { list } from "./list.ts";
import { pause, resume } from "./pause.ts";
import { show } from "./show.ts";

/** `svc agent …`: agents of a running service. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc agent",
      summary: "List, show, pause and resume the agents of a running service",
      commands: [list, show, pause, resume],
    },
    argv,
    withPrintable(context),
  );
}
