import { getOrMake } from "../get-or-make.ts";
import { FileSet } from "./file-set.ts";
import { sizeWithoutZeros } from "./headroom.ts";
import type { StoreIo } from "./io.ts";
import type { LineHeader } from "./line.ts";
import { LineBuffer } from "./line.ts";
import { readManifest } from "./manifest.ts";
import { sealedPart } from "./read-segment.ts";
import type { ScannedLine } from "./scan-lines.ts";
import { scanLines } from "./scan-lines.ts";
import { TableWriter } from "./table-writer.ts";
import type { Problem } from "./verify.ts";

const LIMIT = 64 * 1024 * 1024;

type EditedLine = Partial<LineHeader> & { readonly d?: unknown };

/** Writes all lines that are JSON, edited ones with a new checksum, to new files that take the place of the old ones. */
export async function resealFiles(
  io: StoreIo,
  folder: string,
): Promise<{ lines: number; edited: number; problems: Problem[] }> {
  const log = { info() {}, warn() {}, error() {} };
  const files = new FileSet({ io, folder, log, segments: new Map() });
  files.claim.seize();
  const names = namesOf(io, folder, files);
  const writers = new Map<string, TableWriter>();
  const outcome = { lines: 0, edited: 0, problems: [] as Problem[] };
  for (const name of names) {
    const file = io.open(`${folder}/${name}`, "read");
    try {
      await scanLines(io, { file, size: sizeWithoutZeros(io, file) }, (line) => {
        if (line.number === 1 && line.bytes.includes('"format"')) return;
        const resealed = reseal(line);
        if (resealed === undefined) {
          const { number, position: byte } = line;
          outcome.problems.push({
            file: name,
            line: number,
            byte,
            what: "it is no line of a store and was left out",
          });
          return;
        }
        outcome.lines++;
        if (resealed.edited) outcome.edited++;
        const { t, s } = resealed.header;
        getOrMake(writers, t, () => new TableWriter(files, t, LIMIT)).add(resealed.bytes, s);
      });
    } finally {
      io.close(file);
    }
  }
  for (const writer of writers.values()) await writer.finish();
  await io.syncFolder(folder);
  const segments = [...writers.values()].flatMap((writer) => writer.segments);
  await files.publish(segments, undefined);
  for (const name of names) io.rename(`${folder}/${name}`, `${folder}/${name}.old`);
  files.close();
  return outcome;
}

/** The files that the manifest names; where it is lost or damaged, all that are there. */
function namesOf(io: StoreIo, folder: string, files: FileSet): string[] {
  try {
    const named = readManifest(io, folder)?.files.map(({ name }) => name);
    if (named !== undefined) return named.filter((name) => io.list(folder).includes(name));
  } catch {
    // What it named is unknown now: an older version of an entity loses against a newer one wherever they are.
  }
  return files.orphans();
}

function reseal(line: ScannedLine): { header: LineHeader; bytes: Buffer; edited: boolean } | undefined {
  const sealed = sealedPart(line);
  const content = parse(sealed ?? line.bytes);
  if (content === undefined) return undefined;
  const { s, t, id, i } = content;
  if (typeof s !== "number" || typeof t !== "string" || typeof id !== "string" || content.d === undefined)
    return undefined;
  const header = { s, k: 0, n: 0, t, id, ix: {} };
  if (sealed !== undefined) return { header, bytes: Buffer.from(sealed), edited: false };
  const lines = new LineBuffer();
  // Without an index, as one of an entity that was changed.
  const rest = i !== undefined ? `,"i":${i},"ix":{}` : content.d === null ? ',"ix":{}' : "";
  const start = `{"s":${s},"k":0,"n":0,"t":${JSON.stringify(t)},"id":${JSON.stringify(id)}${rest},"d":`;
  lines.add(start, [JSON.stringify(content.d)]);
  const bytes = Buffer.from(lines.bytes().subarray(0, lines.length - 1));
  return { header, bytes, edited: true };
}

function parse(bytes: Buffer): EditedLine | undefined {
  try {
    const content: unknown = JSON.parse(bytes.toString());
    return content === null || typeof content !== "object" ? undefined : (content as EditedLine);
  } catch {
    return undefined;
  }
}
