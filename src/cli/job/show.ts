import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { Case } from "../../core/models/case.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobResponse } from "../../core/models/job-response.ts";
import type { NamedCall } from "../../core/runs/fork/call-names.ts";
import { defineCommand } from "../command.ts";
import { type Paint, PLAIN, paintStatus } from "../paint.ts";
import { renderTable } from "../table.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { readJob } from "./follow-job.ts";
import { listCases, readPages } from "./list-cases.ts";
import { describeQuestion } from "./question.ts";
import type { ServiceClient } from "./service-client.ts";

/** More cases than that are not read by a person. */
const MOST_CASES = 40;
/** Nor a longer result. */
const LONGEST_RESULT = 4000;

/** `svc job show`: a job with its cases. */
export const show = defineCommand({
  usage: "show <job>",
  summary: "Show a job and its cases",
  flags: v.object({
    calls: option.flag("list its recorded calls, as svc job fork --from takes them"),
    all: option.flag(`list all cases; without it, at most ${MOST_CASES}`),
    ...CONNECTION_FLAGS,
  }),
  examples: [
    "svc job show job-1f9c2a77",
    "svc job show job-1f9c2a77 --calls",
    "svc job show job-1f9c2a77 --json",
  ],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const job = await readJob(client, args[0]!);
    const cases = await listCases(client, job.id, flags.json ? 1000 : 0);
    const path = `/jobs/${encodeURIComponent(job.id)}`;
    const calls = flags.calls
      ? await readPages<NamedCall>(client, `${path}/calls?limit=10000`, 10_000)
      : undefined;
    const forked = await readPages<JobResponse>(client, `/jobs?forked_from=${job.id}&limit=1000`, 1000);
    const forks = forked.map(({ job_id }) => job_id);
    if (flags.json) context.print(JSON.stringify({ ...job, cases, forks, ...(calls && { calls }) }, null, 2));
    else {
      const listed = flags.all ? cases : pickCases(cases);
      context.print(render(job, { cases, listed, forks, calls, client }, context.paint?.print));
    }
    return 0;
  },
});

interface Shown {
  readonly cases: readonly Case[];
  /** Those that have a line. */
  readonly listed: readonly Case[];
  readonly forks: readonly string[];
  readonly calls: readonly NamedCall[] | undefined;
  readonly client: Pick<ServiceClient, "command">;
}

function render(job: Job, { cases, listed, forks, calls, client }: Shown, paint: Paint = PLAIN): string {
  const status = paintStatus(paint, job.status);
  const facts: [string, string | null | undefined][] = [
    ["job", job.id],
    ["agent", job.agent_name],
    ["status", job.stop_reason ? `${status} (${job.stop_reason})` : status],
    ["started", `${job.created_at} by ${job.job_context.started_by}`],
    ["finished", job.finished_at],
    ["suspended", job.suspended && `until ${job.suspended.wake_at ?? "what it waits for has come"}`],
    ["fork of", job.forked_from && `${job.forked_from.job_id}, up to line ${job.forked_from.line}`],
    ["forks", forks.length > 0 ? forks.join(", ") : null],
    ["cost", job.total_cost > 0 ? job.total_cost.toFixed(4) : null],
    ["error", job.error && paint("red", job.error)],
    ["result", job.result === null ? null : resultText(job, client)],
  ];
  const rows = listed.map((item) => [item.id, item.status, item.total_cost.toFixed(4), item.name]);
  return [
    ...facts.filter(([, value]) => value).map(([name, value]) => `${name.padEnd(9)} ${value}`),
    ...(rows.length > 0 ? ["", renderTable(["case", "status", "cost", "name"], rows, paint)] : []),
    ...(listed.length < cases.length
      ? [countCases(cases, listed.length, client.command("job", "show", job.id, "--all"))]
      : []),
    ...(calls ? ["", renderTable(["line", "call"], calls.map(toRow), paint)] : []),
    ...cases.filter((item) => item.question).map((item) => describeQuestion(item, client)),
  ].join("\n");
}

/** The cases that are shown of many: first those that are not completed, which people look for; in the order in which they were opened. */
function pickCases(cases: readonly Case[]): readonly Case[] {
  if (cases.length <= MOST_CASES) return cases;
  const [done, others] = [true, false].map((is) =>
    cases.filter(({ status }) => (status === "completed") === is),
  );
  const picked = new Set([...others!, ...done!].slice(0, MOST_CASES));
  return cases.filter((item) => picked.has(item));
}

function countCases(cases: readonly Case[], listed: number, command: string): string {
  const counts = new Map<string, number>();
  for (const { status } of cases) counts.set(status, (counts.get(status) ?? 0) + 1);
  const text = [...counts].map(([status, count]) => `${count} ${status}`).join(", ");
  return `${listed} of ${cases.length} cases (${text}). All of them: ${command}`;
}

function resultText({ id, result }: Job, client: Shown["client"]): string {
  const text = JSON.stringify(result);
  if (text.length <= LONGEST_RESULT) return text;
  return `${text.slice(0, LONGEST_RESULT)}… (cut; all of it: ${client.command("job", "show", id, "--json")})`;
}

function toRow({ name, line }: NamedCall): string[] {
  return [line === null ? "open" : String(line), name];
}
