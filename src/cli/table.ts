/** Rows as aligned columns under a header. */
export function renderTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((_, column) => Math.max(...[header, ...rows].map((row) => row[column]!.length)));
  return [header, ...rows]
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column]!))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}

/**
 * Text from agents must not control the terminal: control characters except tab and line feed are escaped the
 * way JSON escapes them, so that JSON stays JSON.
 */
export function printable(text: string): string {
  return text.replace(/[^\P{Cc}\t\n]/gu, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
