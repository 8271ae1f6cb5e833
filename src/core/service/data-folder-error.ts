import { OptionsError } from "../base/check-options.ts";
import { isAtOrBelow } from "../base/is-at-or-below.ts";

const REMEDIES: Readonly<Record<string, string>> = {
  EROFS: "the file system is read-only, mount it for writing",
  EEXIST: "a file with that name exists, remove it",
  ENOTDIR: "a part of its path is a file",
};

/** Says what to do if the data folder cannot be used; other errors are unchanged. */
export function explainDataFolderError(error: unknown, dataDir: string): unknown {
  const { code, path } = (error ?? {}) as NodeJS.ErrnoException;
  if (code === undefined || path === undefined || !isAtOrBelow(path, dataDir)) return error;
  const remedy = REMEDIES[code] ?? "let this user write to it";
  return new OptionsError(
    `The data folder ${dataDir} cannot be used (${code}): ${remedy}, or set another one (option dataDir, SERVICE_DATA_DIR)`,
    { cause: error },
  );
}
