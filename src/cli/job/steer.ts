import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobResponse } from "../../core/models/job-response.ts";
import { defineCommand } from "../command.ts";
import { UsageError } from "../errors.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { readJob } from "./follow-job.ts";

/** `svc job stop`: asks a job to stop. */
export const stop = defineCommand({
  usage: "stop <job>",
  summary: "Ask a job to stop",
  flags: v.object(CONNECTION_FLAGS),
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const job = await readJob(client, args[0]!);
    const path = `/agents/${job.agent_name}/stop`;
    const answer = await client.post<JobResponse>(path, { job_context: job.job_context });
    context.print(flags.json ? JSON.stringify(answer, null, 2) : `Job ${job.id} is ${answer.status}`);
    return 0;
  },
});

/** `svc job retry`: runs a failed or cancelled job again. */
export const retry = defineCommand({
  usage: "retry <job>",
  summary: "Run a failed or cancelled job again, from its last successful step",
  flags: v.object({
    fromStart: option.flag("start over, without the recorded results"),
    ...CONNECTION_FLAGS,
  }),
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const from = flags.fromStart ? "start" : "last_step";
    const job = await client.post<Job>(`/jobs/${encodeURIComponent(args[0]!)}/retry`, { from });
    context.print(
      flags.json
        ? JSON.stringify(job, null, 2)
        : `Job ${job.id} is running again. Follow it: svc job watch ${job.id}`,
    );
    return 0;
  },
});

/** `svc job resume`: resumes a job that a limit ended. */
export const resume = defineCommand({
  usage: "resume <job>",
  summary: "Resume a job that a limit ended, with raised limits",
  flags: v.object({
    maxCases: v.optional(v.pipe(v.number(), v.description("new limit on cases"))),
    maxCost: v.optional(v.pipe(v.number(), v.description("new limit on cost"))),
    maxDuration: v.optional(v.pipe(v.number(), v.description("new limit in seconds"))),
    ...CONNECTION_FLAGS,
  }),
  examples: ["svc job resume job-1f9c2a77 --max-cost 5"],
  async run({ args, flags, context }) {
    const { maxCases, maxCost, maxDuration } = flags;
    const instructions = {
      ...(maxCases !== undefined && { max_cases: maxCases }),
      ...(maxCost !== undefined && { max_cost: maxCost }),
      ...(maxDuration !== undefined && { max_duration: maxDuration }),
    };
    if (Object.keys(instructions).length === 0) {
      throw new UsageError("No limit was raised", "Set --max-cases, --max-cost or --max-duration.");
    }
    const client = await connect(flags, context);
    const job = await client.post<Job>(`/jobs/${encodeURIComponent(args[0]!)}/resume`, {
      job_instructions: instructions,
    });
    context.print(
      flags.json ? JSON.stringify(job, null, 2) : `Job ${job.id} resumed. Follow it: svc job watch ${job.id}`,
    );
    return 0;
  },
});
