import type { PartSum } from "../../core/store/content.ts";
import type { Copied, Problem } from "../../core/store/maintenance.ts";
import type { CliContext } from "../context.ts";
import { renderTable } from "../table.ts";

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

/** Reports what a store contains, table by table. */
export function tellSums(sums: readonly PartSum[], place: string, context: CliContext): void {
  const rows = sums
    .filter((sum) => sum.rows > 0)
    .map((sum) => [sum.isLog ? `${sum.name} (log)` : sum.name, String(sum.rows), sum.checksum]);
  if (rows.length > 0) context.print(renderTable(["table", "rows", "checksum"], rows, context.paint?.print));
  const total = sums.reduce((sum, each) => sum + each.rows, 0);
  context.print(`${place}: ${total} entities and log entries, no damage`);
}
