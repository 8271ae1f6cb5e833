import * as v from "valibot";
import { DatabasePlace } from "../../core/store/postgres/database-place.ts";
import type { CliContext } from "../context.ts";
import { databaseUrlOf, FOLDER_FLAGS } from "./data-folder.ts";

/** The options of commands that work on a data folder, or on the database in `SERVICE_DATABASE_URL`. */
export const STORE_FLAGS = {
  ...FOLDER_FLAGS,
  schema: v.optional(
    v.pipe(
      v.string(),
      v.description("schema of the database (default: agent_control_service)"),
      v.metadata({ value: "name" }),
    ),
  ),
};

interface StoreFlags {
  readonly dataDir?: string | undefined;
  readonly schema?: string | undefined;
}

/** Runs `work` with the database in `SERVICE_DATABASE_URL`; `undefined` where the command is about a folder. */
export async function withDatabase<T>(
  flags: StoreFlags,
  context: CliContext,
  work: (place: DatabasePlace) => Promise<T>,
): Promise<T | undefined> {
  const url = databaseUrlOf(flags, context);
  if (url === undefined) return undefined;
  const place = new DatabasePlace({ url, schema: flags.schema });
  await place.lock();
  try {
    return await work(place);
  } finally {
    await place.release();
  }
}
