import { resolve } from "node:path";
import * as v from "valibot";
import { restoreStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { dataFolderOf, FOLDER_FLAGS } from "./data-folder.ts";
import { tellCopied } from "./report.ts";

/** `svc store restore`: creates a service's data from a backup. */
export const restore = defineCommand({
  usage: "restore <dir>",
  summary: "Copy a backup into an empty data folder and verify it",
  flags: v.object(FOLDER_FLAGS),
  examples: [
    "svc store restore backups/monday",
    "svc store restore backups/monday --data-dir /var/lib/agents",
  ],
  async run({ args, flags, context }) {
    const to = dataFolderOf(flags, context);
    tellCopied(await restoreStore(resolve(context.cwd, args[0]!), to), to, context);
    return 0;
  },
});
