import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { fileDriver } from "../../core/storage/file.ts";
import { openStorage } from "../../core/storage/open-storage.ts";
import { describeStorageUrl } from "../../core/storage/storage-url.ts";
import { type Generation, readGeneration } from "../../core/store/backup/generation.ts";
import { findGeneration, readGenerations } from "../../core/store/backup/generations.ts";
import { type Content, parsed, sumsOf } from "../../core/store/content.ts";
import { renamedContent, renamedContents } from "../../core/store/encryption/renamed-contents.ts";
import { openedContent } from "../../core/store/encryption/sealed-content.ts";
import { sealedContents, sealedPlace } from "../../core/store/encryption/sealed-place.ts";
import { readBackup, restoreStore, saveBackup } from "../../core/store/maintenance.ts";
import { fillPlace } from "../../core/store/move.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { dataFolderOf } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { openNamed, storageFlag } from "./named-storage.ts";
import { tellCopied, tellGenerations, tellSums } from "./report.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

const flags = v.object({
  from: storageFlag("storage that has backups, instead of a folder"),
  at: option.ruled(
    v.check((text) => !Number.isNaN(Date.parse(text)), "must be a time such as 2026-03-01T09:30:00Z"),
    "with --from: the newest backup of this time or before it (default: the newest)",
    "time",
  ),
  list: option.flag("with --from: only list the backups"),
  dryRun: option.flag("restore into a temporary folder, check and count everything, and remove it again"),
  ...STORE_FLAGS,
});
type RestoreFlags = v.InferOutput<typeof flags>;

/** `svc store restore`: creates a service's data from a backup. */
export const restore = defineCommand({
  usage: "restore [dir]",
  summary: "Copy a backup into an empty data folder or database and verify it, or test whether that works",
  flags,
  examples: [
    "svc store restore backups/monday",
    "svc store restore backups/monday --data-dir /var/lib/agents",
    "svc store restore --from gs://agents-backup/production --at 2026-03-01T09:30:00Z",
    "svc store restore --from gs://agents-backup/production --dry-run",
  ],
  async run({ args, flags, context }) {
    const [folder] = args;
    if ((folder === undefined) === (flags.from === undefined))
      throw new UsageError("Name either the folder of a backup or a storage with --from");
    if (folder === undefined) return restoreFrom(flags.from!, flags, context);
    if (flags.at !== undefined || flags.list) throw new UsageError("--at and --list need --from");
    const from = resolve(context.cwd, folder);
    const save = (to: string) => restoreStore(from, to, encryptionKeysOf(context));
    if (flags.dryRun) await inTemporaryFolder((to) => test(() => save(to), to, context));
    else await put(from, flags, context, save);
    return 0;
  },
});

async function restoreFrom(url: string, flags: RestoreFlags, context: CliContext): Promise<number> {
  const storage = openNamed(url, context);
  if (flags.list) {
    tellGenerations(await readGenerations(storage), describeStorageUrl(url), context);
    return 0;
  }
  const generation = await findGeneration(storage, flags.at === undefined ? undefined : new Date(flags.at));
  context.note(describe(generation));
  const save = (to: string) => saveBackup(readGeneration(storage, generation), to, encryptionKeysOf(context));
  if (flags.dryRun) await inTemporaryFolder((to) => test(() => save(to), to, context));
  else await put(undefined, flags, context, save);
  return 0;
}

/** Restores into the database or the folder of the service; a database gets it from a folder, which is checked before. */
async function put(
  from: string | undefined,
  flags: RestoreFlags,
  context: CliContext,
  save: (folder: string) => ReturnType<typeof saveBackup>,
): Promise<void> {
  const keys = encryptionKeysOf(context);
  const restored = await withRemote(flags, context, async (place) => {
    const fill = (folder: string) =>
      readBackup(folder, (content) =>
        fillPlace(
          sealedPlace(place, keys),
          keys.isEmpty ? content : renamedContent(openedContent(content, keys), keys),
          keys.isEmpty ? openFolder(folder) : renamedContents(sealedContents(openFolder(folder), keys), keys),
        ),
      );
    if (from !== undefined) return { sums: await fill(from), to: place.name };
    return inTemporaryFolder(async (folder) => {
      await save(folder);
      return { sums: await fill(folder), to: place.name };
    });
  });
  if (restored !== undefined) return tellSums(restored.sums, restored.to, context);
  const to = dataFolderOf(flags, context);
  tellCopied(await save(to), to, context);
}

/** Restores, opens what was restored, and reads all of it. */
async function test(
  save: () => ReturnType<typeof saveBackup>,
  folder: string,
  context: CliContext,
): Promise<void> {
  const copied = await save();
  const keys = encryptionKeysOf(context);
  const read = (content: Content) => sumsOf(parsed(keys.isEmpty ? content : openedContent(content, keys)));
  tellSums(await readBackup(folder, read), "The backup", context);
  tellCopied(copied, "Restored and removed again", context);
}

/** Where the folder of a backup has the contents of files. */
function openFolder(folder: string) {
  return openStorage(fileDriver({ folder }));
}

/** The folder is removed at the end. */
async function inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "svc-restore-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function describe({ id, made_at, version }: Generation): string {
  return `Backup ${id} of ${made_at}, by version ${version}`;
}
