import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { list } from "./list.ts";
import { drop, retry } from "./steer.ts";

/** `svc events …`: messages of a running service to its control system. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc events",
      summary: "List, resend or drop messages that a running service could not deliver",
      commands: [list, retry, drop],
    },
    argv,
    withPrintable(context),
  );
}
