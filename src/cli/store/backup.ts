import { existsSync } from "node:fs";
import { resolve } from "node:path";
import * as v from "valibot";
import { VERSION } from "../../core/http/service-state.ts";
import { describeStorageUrl } from "../../core/storage/storage-url.ts";
import { writeGeneration } from "../../core/store/backup/generation.ts";
import { type SendBackup, sendSnapshot } from "../../core/store/engine/snapshot.ts";
import { snapshotOf } from "../../core/store/json/content-snapshot.ts";
import { FolderInUseError, saveBackup, sendStored } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { CliError, UsageError } from "../errors.ts";
import { ADDRESS_FILE, CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { dataFolderOf } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { openNamed, storageFlag } from "./named-storage.ts";
import { tellCopied, tellGeneration } from "./report.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

const { url, key, insecure } = CONNECTION_FLAGS;
const FlagsSchema = v.object({
  to: storageFlag("storage to ship the backup to, instead of a folder"),
  ...STORE_FLAGS,
  ...{ url, key, insecure },
});
type Flags = v.InferOutput<typeof FlagsSchema>;

/** `svc store backup`: a consistent copy of the data, of a running or stopped service. */
export const backup = defineCommand({
  usage: "backup [dir]",
  summary:
    "Copy a consistent snapshot of the data into an empty folder, or to a bucket, and verify it; the service may be running",
  flags: FlagsSchema,
  examples: [
    "svc store backup backups/monday",
    "svc store backup backups/monday --url https://agents.example.com",
    "svc store backup --to s3://agents-backup/production?region=eu-central-1",
  ],
  async run({ args, flags, context }) {
    const [folder] = args;
    if ((folder === undefined) === (flags.to === undefined))
      throw new UsageError("Name either a folder or a storage with --to");
    if (flags.to !== undefined) {
      const storage = openNamed(flags.to, context);
      const options = { now: new Date(), version: VERSION };
      const made = await send(flags, context, (sending) => writeGeneration(storage, sending, options));
      tellGeneration(made, describeStorageUrl(flags.to), context);
      return 0;
    }
    const to = resolve(context.cwd, folder!);
    const keys = encryptionKeysOf(context);
    tellCopied(await send(flags, context, (sending) => saveBackup(sending(), to, keys)), to, context);
    return 0;
  },
});

type Receive<T> = (sending: SendBackup) => Promise<T>;

/** Passes on what a backup of the service sends, wherever its data is. */
async function send<T>(flags: Flags, context: CliContext, receive: Receive<T>): Promise<T> {
  const isNamed = flags.url !== undefined || (context.env.SERVICE_URL && flags.dataDir === undefined);
  if (isNamed) return download(flags, context, receive);
  const copied = await withRemote(flags, context, (place) =>
    place.read((content) => receive((has) => sendSnapshot(snapshotOf(content), place.contents, has))),
  );
  if (copied !== undefined) return copied;
  const folder = dataFolderOf(flags, context);
  if (!existsSync(folder)) return download(flags, context, receive);
  try {
    return await sendStored(folder, receive);
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
    return download(flags, { ...context, env }, receive);
  }
}

async function download<T>(flags: Flags, context: CliContext, receive: Receive<T>): Promise<T> {
  const client = await connect(flags, context);
  return receive(() => client.download("/utils/backup"));
}
