import { createReadStream } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import * as v from "valibot";
import { type AuditEntry, AuditEntrySchema, ChainCheck } from "../../core/models/audit-entry.ts";
import { defineCommand } from "../command.ts";
import { CliError } from "../errors.ts";
import { eachLine, SOURCE_FLAGS } from "./lines.ts";

/** `svc audit verify`: follows the chain of hashes. */
export const verify = defineCommand({
  usage: "verify [file]",
  summary: "Check that no line was changed or removed, in a running service, a data folder or an export",
  flags: v.object(SOURCE_FLAGS),
  examples: ["svc audit verify", "svc audit verify audit.jsonl", "svc audit verify --data-dir data"],
  async run({ args, flags, context }) {
    const [file] = args;
    const problems: string[] = [];
    let check: ChainCheck | undefined;
    const visit = (entry: AuditEntry): void => {
      // If the oldest lines were pruned, the first remaining line is the trusted start of the chain.
      check ??= new ChainCheck(entry.n === 1 ? { n: 0, hash: "" } : undefined);
      const problem = check.add(entry);
      if (problem) problems.push(problem);
    };
    if (file === undefined) await eachLine(flags, context, visit);
    else await eachLineOf(resolve(context.cwd, file), visit);

    const lines = check?.count ?? 0;
    const hash = check?.last?.hash ?? null;
    if (flags.json) context.print(JSON.stringify({ lines, hash, problems }, null, 2));
    else {
      for (const problem of problems) context.print(problem);
      const verdict = problems.length === 0 ? "the hash chain is intact" : `${problems.length} problems`;
      context.print(`${lines} lines: ${verdict}${hash === null ? "" : `; the newest hash is ${hash}`}`);
    }
    return problems.length === 0 ? 0 : 1;
  },
});

async function eachLineOf(file: string, visit: (entry: AuditEntry) => void): Promise<void> {
  let number = 0;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number++;
    if (line.trim() === "") continue;
    const entry = v.safeParse(AuditEntrySchema, readJson(line));
    if (!entry.success) throw new CliError(`${file}, line ${number} is not a line of an audit log`);
    visit(entry.output);
  }
}

function readJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
