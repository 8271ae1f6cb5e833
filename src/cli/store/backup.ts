import { existsSync } from "node:fs";
import { resolve } from "node:path";
import * as v from "valibot";
import { snapshotOf } from "../../core/store/json/content-snapshot.ts";
import { backupStore, type Copied, FolderInUseError, saveBackup } from "../../core/store/maintenance.ts";
import { sendSnapshot } from "../../core/store/snapshot.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { ADDRESS_FILE, CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { dataFolderOf } from "./data-folder.ts";
import { tellCopied } from "./report.ts";
import { STORE_FLAGS, withDatabase } from "./with-database.ts";

const { url, key, insecure } = CONNECTION_FLAGS;
const FlagsSchema = v.object({ ...STORE_FLAGS, url, key, insecure });
type Flags = v.InferOutput<typeof FlagsSchema>;

/** `svc store backup`: a consistent copy of the data, of a running or stopped service. */
export const backup = defineCommand({
  usage: "backup <dir>",
  summary:
    "Copy a consistent snapshot of the data into an empty folder and verify it; the service may be running",
  flags: FlagsSchema,
  examples: [
    "svc store backup backups/monday",
    "svc store backup backups/monday --url https://agents.example.com",
  ],
  async run({ args, flags, context }) {
    const to = resolve(context.cwd, args[0]!);
    tellCopied(await copy(to, flags, context), to, context);
    return 0;
  },
});

async function copy(to: string, flags: Flags, context: CliContext): Promise<Copied> {
  const isNamed = flags.url !== undefined || (context.env.SERVICE_URL && flags.dataDir === undefined);
  if (isNamed) return receive(to, flags, context);
  const copied = await withDatabase(flags, context, (place) =>
    place.read((content) => saveBackup(sendSnapshot(snapshotOf(content)), to)),
  );
  if (copied !== undefined) return copied;
  const folder = dataFolderOf(flags, context);
  if (!existsSync(folder)) return receive(to, flags, context);
  try {
    return await backupStore(folder, to);
  } catch (error) {
    if (!(error instanceof FolderInUseError)) throw error;
    // The folder has the address of the service that uses it; it must be that service.
    if (!existsSync(resolve(folder, ADDRESS_FILE))) {
      throw new CliError(error.message, {
        detail: "Set the URL of the service that uses it with --url.",
        cause: error,
      });
    }
    const env = { ...context.env, SERVICE_DATA_DIR: folder, SERVICE_URL: undefined };
    return receive(to, flags, { ...context, env });
  }
}

async function receive(to: string, flags: Flags, context: CliContext): Promise<Copied> {
  const client = await connect(flags, context);
  return saveBackup(client.download("/utils/backup"), to);
}
