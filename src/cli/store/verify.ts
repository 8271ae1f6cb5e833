import * as v from "valibot";
import { countOf } from "../../core/base/count-of.ts";
import { parsed, sumsOf } from "../../core/store/content.ts";
import { openedContent } from "../../core/store/encryption/sealed-content.ts";
import { sealedContents } from "../../core/store/encryption/sealed-place.ts";
import { verifyContents } from "../../core/store/files/copy-contents.ts";
import { verifyStore } from "../../core/store/maintenance.ts";
import { defineCommand } from "../command.ts";
import { readDataFolder } from "./data-folder.ts";
import { encryptionKeysOf } from "./encryption-keys.ts";
import { tellProblems, tellSums } from "./report.ts";
import { STORE_FLAGS, withRemote } from "./with-remote.ts";

/** `svc store verify`: checks every line of the data. */
export const verify = defineCommand({
  usage: "verify",
  summary: "Check every line of the data and list what is damaged",
  flags: v.object(STORE_FLAGS),
  examples: ["svc store verify"],
  async run({ flags, context }) {
    const keys = encryptionKeysOf(context);
    const sums = await withRemote(flags, context, async (place) => ({
      of: place.name,
      ...(await place.read(async (content) => ({
        found: await sumsOf(parsed(keys.isEmpty ? content : openedContent(content, keys))),
        broken: await verifyContents(openedContent(content, keys), sealedContents(place.contents, keys)),
      }))),
    }));
    if (sums !== undefined) {
      for (const { sha256, what } of sums.broken)
        context.print(`the file with the SHA-256 ${sha256}: ${what}`);
      tellSums(sums.found, sums.of, context);
      return sums.broken.length === 0 ? 0 : 1;
    }
    const { lines, files, problems } = await verifyStore(readDataFolder(flags, context), keys);
    tellProblems(problems, context);
    context.print(
      `${countOf(lines, "line")} in ${countOf(files, "file")}: ${problems.length === 0 ? "no damage" : `${problems.length} damaged`}`,
    );
    return problems.length === 0 ? 0 : 1;
  },
});
