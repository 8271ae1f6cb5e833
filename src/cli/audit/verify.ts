import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import * as v from "valibot";
import {
  type Checkpoint,
  CheckpointLineSchema,
  CheckpointSchema,
  isSigned,
} from "../../core/access/checkpoint.ts";
import { countOf } from "../../core/base/count-of.ts";
import { option } from "../../core/base/option.ts";
import { parseJson } from "../../core/base/parse-json.ts";
import { type AuditEntry, AuditEntrySchema, ChainCheck, placeOf } from "../../core/models/audit-entry.ts";
import { defineCommand } from "../command.ts";
import { CliError } from "../errors.ts";
import { eachLine, type LogEnd, SOURCE_FLAGS } from "./lines.ts";

/** `svc audit verify`: follows the chain of hashes to the end that somebody has kept, or that is signed. */
export const verify = defineCommand({
  usage: "verify [file]",
  summary: "Check that no line was changed or removed, in a running service, a data folder or an export",
  flags: v.object({
    expect: option.ruled(
      v.regex(/^\d{1,15}:[\w-]{43}$/, "must be LINE:HASH, as svc audit export prints it"),
      "a line that must be in the chain: the newest one of an earlier export",
      "line:hash",
    ),
    checkpoint: option.text(
      "a file with a checkpoint whose line must be in the chain: one that svc audit checkpoint has printed, or an earlier export",
      "file",
    ),
    signedBy: option.text("the key that must have signed, by its name (kid)", "kid"),
    ...SOURCE_FLAGS,
  }),
  examples: [
    "svc audit verify",
    "svc audit verify audit.jsonl",
    "svc audit verify --expect 34:R0NRO7Xy…",
    "svc audit verify --checkpoint checkpoint.json --signed-by Nw3…",
    "svc audit verify --data-dir data",
  ],
  async run({ args, flags, context }) {
    const [file] = args;
    const problems: string[] = [];
    const kept = flags.checkpoint && (await readCheckpoint(resolve(context.cwd, flags.checkpoint)));
    const wanted = new Set([flags.expect, kept ? kept.line : undefined].filter((one) => one !== undefined));
    let check: ChainCheck | undefined;
    let first = 1;
    const visit = (entry: AuditEntry): void => {
      if (!check) first = entry.n;
      wanted.delete(placeOf(entry));
      // If the oldest lines were pruned, the first remaining line is the trusted start of the chain.
      check ??= new ChainCheck(entry.n === 1 ? { n: 0, hash: "" } : undefined);
      const problem = check.add(entry);
      if (problem) problems.push(problem);
    };
    const end =
      file === undefined
        ? await eachLine(flags, context, visit)
        : await eachLineOf(resolve(context.cwd, file), visit);

    const lines = check?.count ?? 0;
    const newest = lines === 0 ? null : placeOf(check!.last!);
    const hash = newest === null ? null : check!.last!.hash;
    if (lines === 0 && file !== undefined) problems.push(`${file} has no lines: nothing was checked`);
    for (const line of wanted)
      problems.push(`line ${line} is not in the chain: lines were removed, or it is another log`);
    if (end.line !== undefined && end.line !== newest)
      problems.push(`the log ends with line ${end.line}, which is not the last one here: lines were cut off`);
    const isEndKnown = end.line !== undefined || flags.expect !== undefined || Boolean(kept);
    if (lines > 0 && !isEndKnown)
      problems.push(
        "the end is not known: lines may have been cut off. Name an earlier newest line with --expect, or a signed one with --checkpoint",
      );
    const signed = [end.checkpoint, kept || undefined].filter((one) => one !== undefined);
    for (const one of signed) {
      if (!isSigned(one)) problems.push(`the signature of line ${one.line} is not valid`);
      else if (flags.signedBy !== undefined && one.key.kid !== flags.signedBy)
        problems.push(`line ${one.line} was signed by the key ${one.key.kid}`);
    }
    if (flags.signedBy !== undefined && signed.length === 0)
      problems.push("nothing here is signed: there is no checkpoint");
    const signedBy = signed[0]?.key.kid ?? null;
    if (flags.json)
      context.print(JSON.stringify({ lines, hash, newest, signed_by: signedBy, problems }, null, 2));
    else {
      for (const problem of problems) context.print(problem);
      const verdict =
        problems.length > 0
          ? countOf(problems.length, "problem")
          : lines === 0
            ? "nothing was checked"
            : "the hash chain is intact";
      context.print(
        `${countOf(lines, "line")}: ${verdict}${newest === null ? "" : `; the newest is ${newest}`}`,
      );
      if (first > 1) context.note(`Lines 1 to ${first - 1} are not there: they expired, or were cut off.`);
      if (signedBy !== null && flags.signedBy === undefined)
        context.note(
          `The end is signed by the key ${signedBy}: compare it with the one that you know, or name that with --signed-by.`,
        );
      else if (flags.expect === undefined && !kept && signedBy === null && lines > 0)
        context.note("Who can write to the store can cut lines off the end: keep one for --expect.");
    }
    return problems.length === 0 ? 0 : 1;
  },
});

async function eachLineOf(file: string, visit: (entry: AuditEntry) => void): Promise<LogEnd> {
  let number = 0;
  let end: Checkpoint | undefined;
  for await (const line of createInterface({ input: createReadStream(file), crlfDelay: Infinity })) {
    number++;
    if (line.trim() === "") continue;
    const json = parseJson(line);
    const last = v.safeParse(CheckpointLineSchema, json);
    if (end || last.success) {
      if (end || !last.success) throw new CliError(`${file}, line ${number} comes after the end of the log`);
      end = last.output.checkpoint;
      continue;
    }
    const entry = v.safeParse(AuditEntrySchema, json);
    if (!entry.success) throw new CliError(`${file}, line ${number} is not a line of an audit log`);
    visit(entry.output);
  }
  return { line: end?.line, ...(end && { checkpoint: end }) };
}

/** The checkpoint of a file: alone, as the service sends it, or as the last line of an export. */
async function readCheckpoint(file: string): Promise<Checkpoint> {
  const text = await readFile(file, "utf8").catch(() => {
    throw new CliError(`${file} cannot be read`);
  });
  const json = parseJson(text) ?? parseJson(text.trim().split("\n").at(-1)!);
  const found = v.safeParse(
    v.union([
      v.pipe(
        CheckpointLineSchema,
        v.transform((one) => one.checkpoint),
      ),
      CheckpointSchema,
    ]),
    json,
  );
  if (found.success) return found.output;
  throw new CliError(`${file} has no checkpoint: svc audit checkpoint prints one`);
}
