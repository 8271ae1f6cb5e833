import type { Problem } from "../../core/store/maintenance.ts";
import type { CliContext } from "../context.ts";

/** Tells where a file is not as it should be, one place a line. */
export function tellProblems(problems: readonly Problem[], context: CliContext): void {
  for (const { file, line, byte, what } of problems) {
    context.print(`${file}${line === undefined ? "" : `, line ${line}`}, byte ${byte}: ${what}`);
  }
}
