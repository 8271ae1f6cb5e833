import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { list } from "./list.ts";
import { send } from "./send.ts";

/** `svc event …`: events for the jobs of a running service that wait for them. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc event",
      summary: "Send events to the jobs of a running service, list received ones",
      commands: [send, list],
    },
    argv,
    withPrintable(context),
  );
}
