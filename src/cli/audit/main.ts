import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { exportLines } from "./export.ts";
import { list } from "./list.ts";
import { verify } from "./verify.ts";

/** `svc audit …`: the log of security-relevant actions. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc audit",
      summary: "View, export and verify the audit log of security-relevant actions",
      commands: [list, exportLines, verify],
    },
    argv,
    withPrintable(context),
  );
}
