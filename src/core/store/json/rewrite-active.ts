import { writeFully } from "../../storage/file-io.ts";
import { beginJournal } from "./begin-journal.ts";
import { damageError } from "./damage-error.ts";
import type { FileSet } from "./file-set.ts";
import { LineBuffer } from "./line.ts";
import { sealedPart } from "./read-segment.ts";
import { scanLines } from "./scan-lines.ts";
import type { Segment } from "./segment.ts";
import { SharedFile } from "./shared-file.ts";

/**
 * Copies the valid part of the active journal to a new file, syncs it and replaces the old one with it. After
 * a failed sync, or an unclean stop, the system may show bytes of the old file that are not on the disk and
 * never will be; only a newly written and synced file can be trusted.
 */
export async function rewriteActive(files: FileSet, next: number): Promise<void> {
  const { io, folder, active } = files;
  if (active === undefined) {
    await beginJournal(files, next);
    return;
  }
  const { name, handle } = files.createFile("journal");
  const file = new SharedFile(io, handle);
  try {
    await copyLines(files, active, file);
    await io.sync(handle);
    await io.syncFolder(folder);
  } catch (error) {
    file.retire();
    files.removeFile(name);
    throw error;
  }
  const old = { name: active.name, file: active.file };
  active.name = name;
  active.file = file;
  try {
    await files.publish(files.order, active);
  } catch (error) {
    // Which of the two the manifest on disk names is unknown: both stay.
    active.name = old.name;
    active.file = old.file;
    file.retire();
    throw error;
  }
  old.file.retire();
  files.removeFile(old.name);
}

/** Copies line by line, each checked, so that damaged lines are not written again as if they were intact. */
async function copyLines(files: FileSet, from: Segment, to: SharedFile): Promise<void> {
  const lines = new LineBuffer();
  let written = 0;
  const flush = () => {
    writeFully(files.io, to.handle, lines.bytes(), written);
    written += lines.length;
    lines.clear();
  };
  await scanLines(files.io, { file: from.file.handle, size: from.size }, (line) => {
    const bytes = sealedPart(line);
    if (bytes === undefined) {
      const { position: byte, number } = line;
      throw damageError({ file: from.name, byte, line: number, what: "the checksum does not match" });
    }
    lines.addBytes(bytes);
    if (lines.length > 1024 * 1024) flush();
  });
  flush();
  from.size = written;
}
