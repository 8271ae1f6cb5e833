import { resolve } from "node:path";
import * as v from "valibot";
import { openedContent } from "../../core/store/encryption/sealed-content.ts";
import { sealedContents } from "../../core/store/encryption/sealed-place.ts";
import { exportContent, exportStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { readDataFolder } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

/** `svc store export`: the data as plain JSON files. */
export const exportData = defineCommand({
  usage: "export <dir>",
  summary: "Write jobs, cases and run logs as indented JSON, one file each, into a folder",
  flags: v.object(STORE_FLAGS),
  examples: ["svc store export backup", "svc store export backup --data-dir /var/lib/agents"],
  async run({ args, flags, context }) {
    const to = resolve(context.cwd, args[0]!);
    const keys = encryptionKeysOf(context);
    const exported =
      (await withRemote(flags, context, (place) =>
        place.read((content) =>
          exportContent(openedContent(content, keys), to, sealedContents(place.contents, keys)),
        ),
      )) ?? (await exportStore(readDataFolder(flags, context), to, keys));
    for (const { file, count } of exported) context.print(`${file}: ${count}`);
    if (exported.length === 0) context.print("The store is empty.");
    return 0;
  },
});
