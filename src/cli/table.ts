import { type Paint, PLAIN, paintStatus } from "./paint.ts";

/** Columns whose words have colors. */
const STATUS = ["status", "state"];

/** Rows as aligned columns under a header. */
export function renderTable(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  paint: Paint = PLAIN,
): string {
  const widths = header.map((_, column) => Math.max(...[header, ...rows].map((row) => row[column]!.length)));
  const lines = [header, ...rows].map((row) =>
    row.map((cell, column) => (column === row.length - 1 ? cell : cell.padEnd(widths[column]!))),
  );
  const [first, ...rest] = lines;
  return [
    paint("bold", first!.join("  ").trimEnd()),
    ...rest.map((row) =>
      row
        .map((cell, column) => (STATUS.includes(header[column]!) ? paintStatus(paint, cell) : cell))
        .join("  ")
        .trimEnd(),
    ),
  ].join("\n");
}
