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

/** The data folder that a command works on. */
export function readDataFolder(flags: { dataDir?: string | undefined }, context: CliContext): string {
  const folder = resolve(context.cwd, flags.dataDir ?? context.env.SERVICE_DATA_DIR ?? "data");
  if (existsSync(folder)) return folder;
  throw new CliError(`There is no folder ${folder}`, { detail: "Name the data folder with --data-dir." });
}
