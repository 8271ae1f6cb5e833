import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { parseJson } from "../../core/base/parse-json.ts";
import { type AuditEntry, AuditEntrySchema, ChainCheck } from "../../core/models/audit-entry.ts";
import { defineCommand } from "../command.ts";
import { CliError } from "../errors.ts";
import { eachLine, SOURCE_FLAGS } from "./lines.ts";

/** `svc audit verify`: follows the chain of hashes. */
export const verify = defineCommand({
  usage: "verify [file]",
  summary: "Check that no line was changed or removed, in a running service, a data folder or an export",
  flags: v.object({
    expect: option.ruled(
      v.regex(/^\d{1,15}:[\w-]{43}$/, "must be LINE:HASH, as svc audit export prints it"),
      "a line that must be in the chain: the newest one of an earlier export",
      "line:hash",
    ),
    ...SOURCE_FLAGS,
  }),
  examples: [
    "svc audit verify",
    "svc audit verify audit.jsonl",
    "svc audit verify --expect 34:R0NRO7Xy…",
    "svc audit verify --data-dir data",
  ],
  async run({ args, flags, context }) {
    const [file] = args;
    const problems: string[] = [];
    let check: ChainCheck | undefined;
    let first = 1;
    let isFound = flags.expect === undefined;
    const visit = (entry: AuditEntry): void => {
      if (!check) first = entry.n;
      isFound ||= placeOf(entry) === flags.expect;
      // If the oldest lines were pruned, the first remaining line is the trusted start of the chain.
      check ??= new ChainCheck(entry.n === 1 ? { n: 0, hash: "" } : undefined);
      const problem = check.add(entry);
      if (problem) problems.push(problem);
    };
    if (file === undefined) await eachLine(flags, context, visit);
    else await eachLineOf(resolve(context.cwd, file), visit);

    const lines = check?.count ?? 0;
    const newest = lines === 0 ? null : placeOf(check!.last!);
    const hash = newest === null ? null : check!.last!.hash;
    if (lines === 0 && file !== undefined) problems.push(`${file} has no lines: nothing was checked`);
    if (!isFound)
      problems.push(`line ${flags.expect} is not in the chain: lines were removed, or it is another log`);
    if (flags.json) context.print(JSON.stringify({ lines, hash, newest, problems }, null, 2));
    else {
      for (const problem of problems) context.print(problem);
      const verdict =
        lines === 0
          ? "nothing was checked"
          : problems.length === 0
            ? "the hash chain is intact"
            : `${problems.length} problems`;
      context.print(`${lines} lines: ${verdict}${newest === null ? "" : `; the newest is ${newest}`}`);
      if (first > 1) context.note(`Lines 1 to ${first - 1} are not there: they expired, or were cut off.`);
      if (flags.expect === undefined)
        context.note(
          "Whether lines were cut off the end is not known: name an earlier newest line with --expect.",
        );
    }
    return problems.length === 0 ? 0 : 1;
  },
});

/** Names a line of a chain, and all before it. */
export function placeOf({ n, hash }: Pick<AuditEntry, "n" | "hash">): string {
  return `${n}:${hash}`;
}

async function eachLineOf(file: string, visit: (entry: AuditEntry) => void): Promise<void> {
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number++;
    if (line.trim() === "") continue;
    const entry = v.safeParse(AuditEntrySchema, parseJson(line));
    if (!entry.success) throw new CliError(`${file}, line ${number} is not a line of an audit log`);
    visit(entry.output);
  }
}
