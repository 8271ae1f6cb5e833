import type { FileSet } from "./file-set.ts";

/** Starts a new journal file, whose first write will have the number `next`, and seals the one before it. */
export async function beginJournal(files: FileSet, next: number): Promise<void> {
  const journal = files.create("journal", next);
  try {
    await files.io.sync(journal.file.handle);
    // The name must be on disk before a manifest that contains it.
    await files.io.syncFolder(files.folder);
    await files.publish([...files.order, journal], journal);
  } catch (error) {
    // Which manifest is on disk is unknown now, so the file stays; the next start removes it if none names
    // it.
    journal.file.retire();
    throw error;
  }
}
