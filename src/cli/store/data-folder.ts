import { existsSync } from "node:fs";
import { resolve } from "node:path";
import * as v from "valibot";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";

/** The option that names the data folder. */
export const FOLDER_FLAGS = {
  dataDir: v.optional(
    v.pipe(
      v.string(),
      v.description("data folder (default: SERVICE_DATA_DIR, else data)"),
      v.metadata({ value: "dir" }),
    ),
  ),
};

/** Where the data folder is, whether it exists or not. */
export function dataFolderOf(flags: { dataDir?: string | undefined }, { cwd, env }: CliContext): string {
  return resolve(cwd, flags.dataDir ?? (env.SERVICE_DATA_DIR || "data"));
}

/** The data folder that a command works on. */
export function readDataFolder(flags: { dataDir?: string | undefined }, context: CliContext): string {
  const folder = dataFolderOf(flags, context);
  if (existsSync(folder)) return folder;
  throw new CliError(`Folder ${folder} does not exist`, { detail: "Set the data folder with --data-dir." });
}
