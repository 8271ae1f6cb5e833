import type { Copied } from "../../core/store/maintenance.ts";
import type { CliContext } from "../context.ts";

/** Reports what a copy of a store contains. */
export function tellCopied({ files, bytes, lines }: Copied, to: string, context: CliContext): void {
  context.print(
    `${to}: ${lines} lines in ${files} ${files === 1 ? "file" : "files"}, ${(bytes / 1e6).toFixed(1)} MB, no damage`,
  );
}
