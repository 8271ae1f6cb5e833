import { resolve } from "node:path";
import * as v from "valibot";
import { exportStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { FOLDER_FLAGS, readDataFolder } from "./data-folder.ts";

/** `svc store export`: the data as plain JSON files. */
export const exportData = defineCommand({
  usage: "export <dir>",
  summary: "Write jobs, cases and run logs as indented JSON, one file each, into a folder",
  flags: v.object(FOLDER_FLAGS),
  examples: ["svc store export backup", "svc store export backup --data-dir /var/lib/agents"],
  async run({ args, flags, context }) {
    const exported = await exportStore(readDataFolder(flags, context), resolve(context.cwd, args[0]!));
    for (const { file, count } of exported) context.print(`${file}: ${count}`);
    if (exported.length === 0) context.print("The store is empty.");
    return 0;
  },
});
