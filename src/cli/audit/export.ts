import * as v from "valibot";
import { defineCommand } from "../command.ts";
import { eachLine, SOURCE_FLAGS } from "./lines.ts";

const { json: _, ...flags } = SOURCE_FLAGS;

/** `svc audit export`: all lines as JSON, one per line. */
export const exportLines = defineCommand({
  usage: "export",
  summary: "Print the whole audit log as JSON, one line each, oldest first",
  flags: v.object(flags),
  examples: ["svc audit export > audit.jsonl", "svc audit export --data-dir data > audit.jsonl"],
  async run({ flags, context }) {
    await eachLine({ ...flags, json: true }, context, (entry) => context.print(JSON.stringify(entry)));
    return 0;
  },
});
