import { resolve } from "node:path";
import * as v from "valibot";
import { exportContent, exportStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { readDataFolder } from "./data-folder.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

/** `svc store export`: the data as plain JSON files. */
export const exportData = defineCommand({
  usage: "export <dir>",
  summary: "Write jobs, cases and run logs as indented JSON, one file each, into a folder",
  flags: v.object(STORE_FLAGS),
  examples: ["svc store export backup", "svc store export backup --data-dir /var/lib/agents"],
  async run({ args, flags, context }) {
    const to = resolve(context.cwd, args[0]!);
    const exported =
      (await withRemote(flags, context, (place) =>
        place.read((content) => exportContent(content, to, place.contents)),
      )) ?? (await exportStore(readDataFolder(flags, context), to));
    for (const { file, count } of exported) context.print(`${file}: ${count}`);
    if (exported.length === 0) context.print("The store is empty.");
    return 0;
  },
});
