import { countOf } from "../../core/base/count-of.ts";
import type { Generation } from "../../core/store/backup/generation.ts";
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
export function tellCopied(
  { files, bytes, lines, unchecked }: Copied,
  to: string,
  context: CliContext,
): void {
  if (unchecked > 0)
    context.note(
      `${unchecked} encrypted ${unchecked === 1 ? "file was" : "files were"} copied without a check: set SERVICE_ENCRYPTION_KEYS to have ${unchecked === 1 ? "it" : "them"} checked`,
    );
  context.print(
    `${to}: ${countOf(lines, "line")} in ${countOf(files, "file")}, ${megabytes(bytes)}, no damage`,
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

/** Reports a backup that was shipped. */
export function tellGeneration(
  { id, bytes, parts, contents }: Generation,
  to: string,
  context: CliContext,
): void {
  context.print(
    `${to}: backup ${id}, ${megabytes(bytes)} in ${megabytes(shipped(parts))} of ${parts.length} ${parts.length === 1 ? "part" : "parts"}${files(contents)}`,
  );
}

/** Lists backups, the newest last. */
export function tellGenerations(all: readonly Generation[], place: string, context: CliContext): void {
  const rows = all.map(({ id, made_at, version, bytes, parts, contents }) => [
    ...[made_at, id, version, megabytes(bytes), megabytes(shipped(parts)), megabytes(contents?.bytes ?? 0)],
  ]);
  const header = ["made at", "backup", "version", "size", "compressed", "files"];
  if (rows.length === 0) context.print(`${place}: no complete backup`);
  else context.print(renderTable(header, rows, context.paint?.print));
}

function files(contents: Generation["contents"]): string {
  return contents ? `, ${megabytes(contents.bytes)} of files, ${megabytes(contents.added)} of them new` : "";
}

function shipped(parts: Generation["parts"]): number {
  return parts.reduce((sum, part) => sum + part.bytes, 0);
}

function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}
