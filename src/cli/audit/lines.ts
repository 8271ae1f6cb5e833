import type * as v from "valibot";
import type { Checkpoint } from "../../core/access/checkpoint.ts";
import { withFolder } from "../../core/audit/audit-folder.ts";
import { option } from "../../core/base/option.ts";
import { type AuditEntry, placeOf } from "../../core/models/audit-entry.ts";
import type { CliContext } from "../context.ts";
import { CONNECTION_FLAGS, connectToAdmin } from "../events/connection.ts";
import { readDataFolder } from "../store/data-folder.ts";
import { encryptionKeysOf } from "../store/encryption-keys.ts";

/** A running service, or the folder of a stopped one. */
export const SOURCE_FLAGS = {
  dataDir: option.text("read the data folder of a stopped service instead of a running service", "dir"),
  ...CONNECTION_FLAGS,
};
type SourceFlags = v.InferOutput<v.ObjectSchema<typeof SOURCE_FLAGS, undefined>>;

/** Where the log ends: what the log itself has written down, and what a running service signs. */
export interface LogEnd {
  /** `LINE:HASH`. */
  readonly line: string | undefined;
  readonly checkpoint?: Checkpoint;
}

/** Lines read per request. */
const READ = 1000;

/** Passes the lines of the audit log to `visit`, oldest first, up to its end of now. */
export async function eachLine(
  flags: SourceFlags,
  context: CliContext,
  visit: (entry: AuditEntry) => void,
): Promise<LogEnd> {
  const follow = async (line: string | undefined, read: (after: number) => Promise<AuditEntry[]>) => {
    const last = Number(line?.split(":")[0] ?? 0);
    for (let after = 0; after < last; ) {
      const entries = await read(after);
      for (const entry of entries) if (entry.n <= last) visit(entry);
      if (entries.length < READ) return;
      after = entries.at(-1)!.n;
    }
  };
  if (flags.dataDir !== undefined) {
    const folder = readDataFolder({ dataDir: flags.dataDir }, context);
    return withFolder(folder, encryptionKeysOf(context), async ({ audit }) => {
      const end = await audit.end();
      const line = end && placeOf(end);
      await follow(line, (after) => audit.after(after, READ));
      return { line };
    });
  }
  const client = await connectToAdmin(flags, context);
  const checkpoint = await client.get<Checkpoint>("/admin/api/audit/checkpoint");
  await follow(checkpoint.line, async (after) => {
    const path = `/admin/api/audit/lines?after=${after}&limit=${READ}`;
    return (await client.get<{ items: AuditEntry[] }>(path)).items;
  });
  return { line: checkpoint.line, checkpoint };
}
