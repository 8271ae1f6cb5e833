import type * as v from "valibot";
import { withFolder } from "../../core/audit/audit-folder.ts";
import { option } from "../../core/base/option.ts";
import type { AuditEntry } from "../../core/models/audit-entry.ts";
import type { CliContext } from "../context.ts";
import { CONNECTION_FLAGS, connectToAdmin } from "../events/connection.ts";
import { readDataFolder } from "../store/data-folder.ts";

/** A running service, or the folder of a stopped one. */
export const SOURCE_FLAGS = {
  dataDir: option.text("read the data folder of a stopped service instead of a running service", "dir"),
  ...CONNECTION_FLAGS,
};
type SourceFlags = v.InferOutput<v.ObjectSchema<typeof SOURCE_FLAGS, undefined>>;

/** Lines read per request. */
const READ = 1000;

/** Passes the lines of the audit log to `visit`, oldest first. */
export async function eachLine(
  flags: SourceFlags,
  context: CliContext,
  visit: (entry: AuditEntry) => void,
): Promise<void> {
  const follow = async (read: (after: number) => Promise<AuditEntry[]>): Promise<void> => {
    for (let after = 0; ; ) {
      const entries = await read(after);
      for (const entry of entries) visit(entry);
      if (entries.length < READ) return;
      after = entries.at(-1)!.n;
    }
  };
  if (flags.dataDir !== undefined) {
    const folder = readDataFolder({ dataDir: flags.dataDir }, context);
    return withFolder(folder, ({ audit }) => follow((after) => audit.after(after, READ)));
  }
  const client = await connectToAdmin(flags, context);
  await follow(async (after) => {
    const path = `/admin/api/audit/lines?after=${after}&limit=${READ}`;
    return (await client.get<{ items: AuditEntry[] }>(path)).items;
  });
}
