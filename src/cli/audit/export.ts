import * as v from "valibot";
import { defineCommand } from "../command.ts";
import { eachLine, SOURCE_FLAGS } from "./lines.ts";
import { placeOf } from "./verify.ts";

const { json: _, ...flags } = SOURCE_FLAGS;

/** `svc audit export`: all lines as JSON, one per line. */
export const exportLines = defineCommand({
  usage: "export",
  summary: "Print the whole audit log as JSON, one line each, oldest first",
  flags: v.object(flags),
  examples: ["svc audit export > audit.jsonl", "svc audit export --data-dir data > audit.jsonl"],
  async run({ flags, context }) {
    let newest: string | undefined;
    await eachLine({ ...flags, json: true }, context, (entry) => {
      newest = placeOf(entry);
      context.print(JSON.stringify(entry));
    });
    if (newest !== undefined)
      context.note(`Keep the newest line somewhere else, for svc audit verify --expect: ${newest}`);
    return 0;
  },
});
