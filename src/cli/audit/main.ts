import type { CliContext } from "../context.ts";
import { printable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { exportLines } from "./export.ts";
import { list } from "./list.ts";
import { verify } from "./verify.ts";

/** `svc audit …`: who did what that concerns security. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc audit",
      summary: "See, export and check the audit log: who did what that concerns security",
      commands: [list, exportLines, verify],
    },
    argv,
    { ...context, print: (line) => context.print(printable(line)) },
  );
}
