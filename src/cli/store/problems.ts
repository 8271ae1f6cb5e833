import type { Problem } from "../../core/store/maintenance.ts";
import type { CliContext } from "../context.ts";

/** Lists where files are damaged, one place per line. */
export function tellProblems(problems: readonly Problem[], context: CliContext): void {
  for (const { file, line, byte, what } of problems) {
    context.print(`${file}${line === undefined ? "" : `, line ${line}`}, byte ${byte}: ${what}`);
  }
}
