import * as v from "valibot";
import type { Case } from "../../core/models/case.ts";
import type { Job } from "../../core/models/job.ts";
import { defineCommand } from "../command.ts";
import { type Paint, PLAIN, paintStatus } from "../paint.ts";
import { renderTable } from "../table.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { readJob } from "./follow-job.ts";
import { listCases } from "./list-cases.ts";
import { describeQuestion } from "./question.ts";

/** `svc job show`: a job with its cases. */
export const show = defineCommand({
  usage: "show <job>",
  summary: "Show a job and its cases",
  flags: v.object(CONNECTION_FLAGS),
  examples: ["svc job show job-1f9c2a77", "svc job show job-1f9c2a77 --json"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const job = await readJob(client, args[0]!);
    const cases = await listCases(client, job.id, flags.json ? 1000 : 0);
    context.print(
      flags.json ? JSON.stringify({ ...job, cases }, null, 2) : render(job, cases, context.paint?.print),
    );
    return 0;
  },
});

function render(job: Job, cases: readonly Case[], paint: Paint = PLAIN): string {
  const status = paintStatus(paint, job.status);
  const facts: [string, string | null | undefined][] = [
    ["job", job.id],
    ["agent", job.agent_name],
    ["status", job.stop_reason ? `${status} (${job.stop_reason})` : status],
    ["started", `${job.created_at} by ${job.job_context.started_by}`],
    ["finished", job.finished_at],
    ["cost", job.total_cost > 0 ? job.total_cost.toFixed(4) : null],
    ["error", job.error && paint("red", job.error)],
    ["result", job.result === null ? null : JSON.stringify(job.result)],
  ];
  const rows = cases.map((item) => [item.id, item.status, item.total_cost.toFixed(4), item.name]);
  return [
    ...facts.filter(([, value]) => value).map(([name, value]) => `${name.padEnd(9)} ${value}`),
    ...(rows.length > 0 ? ["", renderTable(["case", "status", "cost", "name"], rows, paint)] : []),
    ...cases.filter((item) => item.question).map(describeQuestion),
  ].join("\n");
}
