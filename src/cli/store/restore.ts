import { resolve } from "node:path";
import * as v from "valibot";
import { readBackup, restoreStore } from "../../core/store/maintenance.ts";
import { fillPlace } from "../../core/store/move.ts";
import { defineCommand } from "../command.ts";
import { dataFolderOf } from "./data-folder.ts";
import { tellCopied, tellSums } from "./report.ts";
import { STORE_FLAGS, withDatabase } from "./with-database.ts";

/** `svc store restore`: creates a service's data from a backup. */
export const restore = defineCommand({
  usage: "restore <dir>",
  summary: "Copy a backup into an empty data folder or database and verify it",
  flags: v.object(STORE_FLAGS),
  examples: [
    "svc store restore backups/monday",
    "svc store restore backups/monday --data-dir /var/lib/agents",
  ],
  async run({ args, flags, context }) {
    const from = resolve(context.cwd, args[0]!);
    const restored = await withDatabase(flags, context, async (place) => ({
      sums: await readBackup(from, (content) => fillPlace(place, content)),
      to: place.name,
    }));
    if (restored !== undefined) tellSums(restored.sums, restored.to, context);
    else {
      const to = dataFolderOf(flags, context);
      tellCopied(await restoreStore(from, to), to, context);
    }
    return 0;
  },
});
