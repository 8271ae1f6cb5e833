import { url as inspectorUrl } from "node:inspector";
import { type OpenJob, rehearseOpen, whyUnsure } from "../../core/runs/check/check-job.ts";
import { readRecord } from "../../core/runs/check/open-jobs.ts";
import type { Keyring } from "../../core/store/encryption/keyring.ts";
import { readCopy } from "../check/folder-copy.ts";
import { loadCode } from "../check/load-code.ts";
import { whileRehearsing } from "../check/rehearsing.ts";
import type { CliContext } from "../context.ts";
import { CliError } from "../errors.ts";
import { findController } from "../load-controller.ts";
import { withSecretFiles } from "../secret-files.ts";
import { encryptionKeysOf } from "../store/encryption-keys.ts";

/** How a replay ended. */
export interface ReplayReport {
  readonly id: string;
  readonly agent: string;
  readonly version: string;
  /** Lines of the log, and the one up to which the handler was given the results of its calls. */
  readonly lines: number;
  readonly line: number;
  /** `fits`: the handler made the recorded calls. */
  readonly verdict: "fits" | "mismatch" | "failed" | "unsure";
  /** Calls that the handler waits for at the end of the record: in a service they would run. */
  readonly next: readonly string[];
  readonly expected: string | null;
  readonly found: string | null;
  readonly message: string | null;
  /** What the handler has returned; absent if it has not. */
  readonly result?: unknown;
}

/** Calls the handler of a job in a data folder with what is recorded of it. */
export async function replayJob(
  { id, file, folder }: { id: string; file: string | undefined; folder: string },
  context: CliContext,
): Promise<ReplayReport> {
  const open = await readJob(folder, id, encryptionKeysOf(context));
  const controller = findController(file, context.cwd);
  const { registry, dataDir } = await loadCode(controller, context);
  const agent = registry.of(open.job);
  if (!agent) throw new CliError(`There is no agent "${open.job.agent_name}" in this folder`);
  return whileRehearsing(controller, [dataDir, folder], async (processes) => {
    // A person who steps through it takes their time, and the handler is where their debugger is.
    const how = inspectorUrl() === undefined ? { processes } : { longest: Number.POSITIVE_INFINITY };
    const given = { env: withSecretFiles(context.env), ...how };
    const rehearsed = await rehearseOpen(agent, open, given);
    const { end, line, next, returned } = rehearsed;
    const held = end === "unsure" ? undefined : end?.held;
    return {
      ...{ id, agent: agent.slug, version: agent.definition.version, lines: open.log.length, line },
      verdict:
        end === undefined
          ? "fits"
          : end === "unsure"
            ? "unsure"
            : held || end.reason === "nondeterministic"
              ? "mismatch"
              : "failed",
      next: next.map(({ label }) => label),
      expected: held?.expected ?? null,
      found: held?.found ?? null,
      message: end === undefined ? null : end === "unsure" ? whyUnsure(rehearsed) : end.message,
      ...(returned && { result: returned.value ?? null }),
    };
  });
}

async function readJob(folder: string, id: string, keys: Keyring): Promise<OpenJob> {
  const found = readCopy<OpenJob>(folder, keys, async function* (contents) {
    const job = await contents.jobs.find(id);
    if (job) yield readRecord(contents, job);
  });
  for await (const open of found) return open;
  throw new CliError(`There is no job ${id} in ${folder}`, {
    detail: "Copy it from its service: svc job pull <url> <job>",
  });
}

/** The report as text. */
export function describeReplay(report: ReplayReport, { argv, self }: CliContext): string[] {
  const { id, agent, version, line, lines, verdict, next, expected, found, message } = report;
  const head = `Job ${id} with ${agent} ${version}: replayed up to line ${line} of ${lines}`;
  const text: string[] = [head];
  if (verdict === "mismatch") {
    text.push("The record does not fit this code.");
    if (expected) text.push(`  recorded: ${expected}`, `  now:      ${found ?? "not made"}`);
    if (message) text.push(`  ${message}`);
  } else if (verdict === "failed") text.push(`The handler failed: ${message}`);
  else if (verdict === "unsure") text.push(`It is not known whether the record fits. ${message}.`);
  else if ("result" in report) text.push(`The handler returned ${JSON.stringify(report.result)}`);
  else text.push("The record ends here. Next, and not run:", ...next.map((label) => `  ${label}`));
  if (inspectorUrl() === undefined) {
    const command = [self[0] ?? "node", "--inspect-brk", ...self.slice(1), ...argv];
    text.push("", `In a debugger: ${command.join(" ")}`);
  }
  return text;
}
