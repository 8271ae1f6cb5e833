import type { StoreIo } from "../../storage/file-io.ts";
import { missingBytes } from "./damage-error.ts";
import { sizeWithoutZeros } from "./headroom.ts";
import { readManifest } from "./manifest.ts";
import type { Problem } from "./problem.ts";
import { siftFile } from "./sift.ts";
import { verifyCheckpoint } from "./verify-checkpoint.ts";

/** Checks every line of every file that the manifest names, and of journals their order and transactions; then the checkpoint. */
export async function verifyFiles(
  io: StoreIo,
  folder: string,
): Promise<{ lines: number; files: number; problems: Problem[] }> {
  const problems: Problem[] = [];
  const files = readManifest(io, folder)?.files ?? [];
  let lines = 0;
  for (const { name, size } of files) {
    if (!io.list(folder).includes(name)) {
      problems.push({ file: name, byte: 0, what: "the file is missing" });
      continue;
    }
    const file = io.open(`${folder}/${name}`, "read");
    try {
      const actual = size === undefined ? sizeWithoutZeros(io, file) : io.size(file);
      if (size !== undefined && actual < size) {
        problems.push({ file: name, byte: actual, what: missingBytes(size - actual) });
      }
      const isJournal = name.startsWith("journal.");
      await siftFile(
        io,
        { file, size: Math.min(size ?? actual, actual), isJournal },
        {
          keep: () => lines++,
          drop: ({ line, byte, what }) => {
            problems.push({ file: name, byte, what, ...(line === undefined ? {} : { line }) });
            if (line !== undefined) lines++;
          },
        },
      );
    } finally {
      io.close(file);
    }
  }
  if (problems.length === 0) problems.push(...(await verifyCheckpoint(io, folder)));
  return { lines, files: files.length, problems };
}
