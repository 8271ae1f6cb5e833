import type { Copied, Problem } from "../../core/store/maintenance.ts";
import type { CliContext } from "../context.ts";

/** Lists where files are damaged, one place per line. */
export function tellProblems(problems: readonly Problem[], context: CliContext): void {
  for (const { file, line, byte, what } of problems) {
    context.print(`${file}${line === undefined ? "" : `, line ${line}`}, byte ${byte}: ${what}`);
  }
}

/** Reports what a copy of a store contains. */
export function tellCopied({ files, bytes, lines }: Copied, to: string, context: CliContext): void {
  context.print(
    `${to}: ${lines} lines in ${files} ${files === 1 ? "file" : "files"}, ${(bytes / 1e6).toFixed(1)} MB, no damage`,
  );
}
