import type { CliContext } from "../context.ts";
import { withPrintable } from "../printable.ts";
import { runProgram } from "../program.ts";
import { add, declare } from "./add.ts";
import { remove, rotate, rotateSigningKey } from "./change.ts";
import { list } from "./list.ts";

/** `svc access …`: keys with fewer rights than the API key. */
export function run(argv: readonly string[], context: CliContext): Promise<number> {
  return runProgram(
    {
      name: "svc access",
      summary: "Make, list, rotate and remove keys with fewer rights than the API key",
      commands: [add, list, rotate, rotateSigningKey, remove, declare],
    },
    argv,
    withPrintable(context),
  );
}
