import { resolve } from "node:path";
import * as v from "valibot";
import type { Keyring } from "../../core/store/encryption/keyring.ts";
import { renamedContent } from "../../core/store/encryption/renamed-contents.ts";
import { sealedPlace } from "../../core/store/encryption/sealed-place.ts";
import { importFiles, importStore, readExport } from "../../core/store/maintenance.ts";
import { fillPlace, type Place } from "../../core/store/move.ts";
import { defineCommand } from "../command.ts";
import { dataFolderOf } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

async function fillExported(place: Place, from: string, keys: Keyring) {
  const exported = renamedContent(await readExport(from), keys);
  await place.prepare?.();
  await importFiles(exported, from, place.contents);
  return fillPlace(place, exported, place.contents);
}

/** `svc store import`: creates a service's data from plain JSON files. */
export const importData = defineCommand({
  usage: "import <dir>",
  summary: "Create a data folder from the files that `svc store export` wrote, edited or not",
  flags: v.object(STORE_FLAGS),
  examples: ["svc store import exported", "svc store import exported --data-dir /var/lib/agents"],
  async run({ args, flags, context }) {
    const from = resolve(context.cwd, args[0]!);
    const keys = encryptionKeysOf(context);
    const imported =
      (await withRemote(flags, context, async (place) =>
        fillExported(sealedPlace(place, keys), from, keys),
      )) ?? (await importStore(from, dataFolderOf(flags, context), keys));
    for (const { name, ids } of imported) context.print(`${name}: ${ids}`);
    return 0;
  },
});
