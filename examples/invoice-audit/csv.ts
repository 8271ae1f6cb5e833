/** One record of a CSV file by column name, and its line number. */
export interface CsvRow {
  readonly line: number;
  readonly fields: Readonly<Record<string, string>>;
}

/** Reads CSV with a header: comma or semicolon, quoted fields, doubled quotes, line breaks inside quotes. */
export function parseCsv(text: string): CsvRow[] {
  const delimiter = text.slice(0, text.indexOf("\n")).includes(";") ? ";" : ",";
  const [header, ...records] = readRecords(text.replace(/^\uFEFF/, ""), delimiter);
  return records.map(({ line, cells }) => ({
    line,
    fields: Object.fromEntries(header!.cells.map((name, column) => [name, cells[column] ?? ""])),
  }));
}

function readRecords(text: string, delimiter: string): { line: number; cells: string[] }[] {
  const records: { line: number; cells: string[] }[] = [];
  let record = { line: 1, cells: [] as string[] };
  let cell = "";
  let quoted = false;
  let line = 1;
  for (let at = 0; at < text.length; at++) {
    const char = text[at]!;
    if (char === "\n") line++;
    if (quoted && char === '"' && text[at + 1] === '"') {
      cell += '"';
      at++;
    } else if (char === '"') {
      quoted = !quoted;
    } else if (!quoted && (char === delimiter || char === "\n")) {
      record.cells.push(cell.trim());
      cell = "";
      if (char === delimiter) continue;
      if (record.cells.some((one) => one !== "")) records.push(record);
      record = { line, cells: [] };
    } else cell += char;
  }
  record.cells.push(cell.trim());
  if (record.cells.some((one) => one !== "")) records.push(record);
  return records;
}
