import { resolve } from "node:path";
import * as v from "valibot";
import { importStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { dataFolderOf, FOLDER_FLAGS } from "./data-folder.ts";

/** `svc store import`: creates a service's data from plain JSON files. */
export const importData = defineCommand({
  usage: "import <dir>",
  summary: "Create a data folder from the files that `svc store export` wrote, edited or not",
  flags: v.object(FOLDER_FLAGS),
  examples: ["svc store import exported", "svc store import exported --data-dir /var/lib/agents"],
  async run({ args, flags, context }) {
    const imported = await importStore(resolve(context.cwd, args[0]!), dataFolderOf(flags, context));
    for (const { name, count } of imported) context.print(`${name}: ${count}`);
    return 0;
  },
});
