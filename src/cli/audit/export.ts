import * as v from "valibot";
import { defineCommand } from "../command.ts";
import { eachLine, SOURCE_FLAGS } from "./lines.ts";

const { json: _, ...flags } = SOURCE_FLAGS;

/** `svc audit export`: all lines as JSON, one per line, and the signed end. */
export const exportLines = defineCommand({
  usage: "export",
  summary:
    "Print the whole audit log as JSON, one line each, oldest first, and its end as the service signs it",
  flags: v.object(flags),
  examples: ["svc audit export > audit.jsonl", "svc audit export --data-dir data > audit.jsonl"],
  async run({ flags, context }) {
    const { line, checkpoint } = await eachLine({ ...flags, json: true }, context, (entry) =>
      context.print(JSON.stringify(entry)),
    );
    if (checkpoint) context.print(JSON.stringify({ checkpoint }));
    else context.note("The end is not signed: only a running service does that.");
    if (line !== undefined)
      context.note(`Keep the newest line somewhere else, for svc audit verify --expect: ${line}`);
    return 0;
  },
});
