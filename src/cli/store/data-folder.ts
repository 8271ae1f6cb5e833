import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { option } from "../../core/base/option.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { withSecretFiles } from "../secret-files.ts";

/** The option that names the data folder. */
export const FOLDER_FLAGS = {
  dataDir: option.text("data folder (default: SERVICE_DATA_DIR, else data)", "dir"),
};

/** A variable, or what a file of secrets has for it. */
export function readVariable(name: string, context: Pick<CliContext, "env">): string | undefined {
  return withSecretFiles(context.env)[name]?.trim() || undefined;
}

/** The URL of the database that the service of this environment has, unless the command names a folder. */
export function databaseUrlOf(
  { dataDir }: { dataDir?: string | undefined },
  context: Pick<CliContext, "env">,
): string | undefined {
  return dataDir === undefined ? readVariable("SERVICE_DATABASE_URL", context) : undefined;
}

/** The schema of that database. */
export function databaseSchemaOf(
  { schema }: { readonly schema?: string | undefined },
  context: Pick<CliContext, "env">,
): string | undefined {
  return schema ?? readVariable("SERVICE_DATABASE_SCHEMA", context);
}

/**
 * Where the data folder is, whether it exists or not. Refuses to take the default one where the data is in a database.
 */
export function dataFolderOf(flags: { dataDir?: string | undefined }, context: CliContext): string {
  const { cwd, env } = context;
  if (databaseUrlOf(flags, context) !== undefined) {
    throw new CliError("This command works on a data folder, and SERVICE_DATABASE_URL is set", {
      detail:
        "The data of the service is in that database. To work on a folder anyway, name it: see --help. `svc store backup <dir>` makes one of the database.",
    });
  }
  if (flags.dataDir === undefined && readVariable("SERVICE_STORAGE_URL", context) !== undefined) {
    throw new CliError("This command works on a data folder, and SERVICE_STORAGE_URL is set", {
      detail:
        "The data of the service is in that storage. To work on a folder anyway, name it with --data-dir. `svc store backup <dir>` makes one of the storage.",
    });
  }
  return resolve(cwd, flags.dataDir ?? (env.SERVICE_DATA_DIR || "data"));
}

/** The data folder that a command works on. */
export function readDataFolder(flags: { dataDir?: string | undefined }, context: CliContext): string {
  const folder = dataFolderOf(flags, context);
  if (existsSync(folder)) return folder;
  throw new CliError(`Folder ${folder} does not exist`, { detail: "Set the data folder with --data-dir." });
}
