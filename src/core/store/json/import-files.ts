import type { Content, ContentPart, ContentRow } from "../content.ts";
import { storageError } from "../storage-error.ts";
import { splitJson } from "./split-json.ts";

/** A file that an export wrote: entities of a table as a list, or entries of a log by key as a map. */
export interface ExportedFile {
  /** Table or log. */
  readonly name: string;
  readonly file: string;
  read(): AsyncIterable<Uint8Array>;
}

/** What exported files have, edited or not. Reading it rejects where a file is not as an export writes it. */
export async function contentOfFiles(exported: readonly ExportedFile[]): Promise<Content> {
  return { parts: await Promise.all(exported.map(toPart)) };
}

async function toPart(exported: ExportedFile): Promise<ContentPart> {
  const { name } = exported;
  return { name, isLog: await isMap(exported), rows: () => readRows(exported) };
}

/** Whether the first character that is not blank begins a map. */
async function isMap({ read }: ExportedFile): Promise<boolean> {
  for await (const chunk of read()) {
    const [first] = Buffer.from(chunk).toString("latin1").trimStart();
    if (first !== undefined) return first === "{";
  }
  return false;
}

async function* readRows({ file, read }: ExportedFile): AsyncGenerator<ContentRow[], void> {
  const ids = new Set<string>();
  let count = 0;
  for await (const { key, value } of readParts(file, read())) {
    count++;
    const id = key ?? (value as { id?: unknown } | null)?.id;
    if (typeof id !== "string") throw invalid(file, `item ${count} has no id`);
    if (ids.has(id)) throw invalid(file, `"${id}" occurs twice`);
    ids.add(id);
    if (key === undefined) yield [{ id, body: JSON.stringify(value) }];
    else if (!Array.isArray(value)) throw invalid(file, `"${id}" is not a list of entries`);
    else yield value.map((entry, at) => ({ id, number: at + 1, body: JSON.stringify(entry) }));
  }
}

async function* readParts(
  file: string,
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ key: string | undefined; value: unknown }, void> {
  try {
    for await (const { key, value } of splitJson(chunks)) {
      yield {
        key: key === undefined ? undefined : (JSON.parse(key) as string),
        value: JSON.parse(value) as unknown,
      };
    }
  } catch (error) {
    throw error instanceof SyntaxError ? invalid(file, error.message) : error;
  }
}

function invalid(file: string, what: string): Error {
  return storageError(
    `${file} cannot be imported: ${what}`,
    "It must have the format that `svc store export` writes.",
  );
}
