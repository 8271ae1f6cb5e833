import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobResponse } from "../../core/models/job-response.ts";
import { UsageError } from "../errors.ts";
import { readJob } from "./follow-job.ts";
import { requestCommand } from "./request-command.ts";

/** `svc job stop`: asks a job to stop. */
export const stop = requestCommand({
  usage: "stop <job>",
  summary: "Ask a job to stop",
  async ask(client, { args }) {
    const { agent_name, job_context } = await readJob(client, args[0]!);
    return client.post<JobResponse>(`/agents/${agent_name}/stop`, { job_context }, { repeatable: true });
  },
  show: ({ status }, { args }) => `Job ${args[0]} is ${status}`,
});

/** `svc job retry`: runs a failed or cancelled job again. */
export const retry = requestCommand({
  usage: "retry <job>",
  summary: "Run a failed or cancelled job again, from its last successful step",
  flags: { fromStart: option.flag("start over, without the recorded results") },
  ask: (client, { args, flags }) =>
    client.post<Job>(`/jobs/${encodeURIComponent(args[0]!)}/retry`, {
      from: flags.fromStart ? "start" : "last_step",
    }),
  show: ({ id }) => `Job ${id} is running again. Follow it: svc job watch ${id}`,
});

/** `svc job resume`: resumes a job that a limit ended. */
export const resume = requestCommand({
  usage: "resume <job>",
  summary: "Resume a job that a limit ended, with raised limits",
  flags: {
    maxCases: v.optional(v.pipe(v.number(), v.description("new limit on cases"))),
    maxCost: v.optional(v.pipe(v.number(), v.description("new limit on cost"))),
    maxDuration: v.optional(v.pipe(v.number(), v.description("new limit in seconds"))),
  },
  examples: ["svc job resume job-1f9c2a77 --max-cost 5"],
  ask(client, { args, flags }) {
    const { maxCases, maxCost, maxDuration } = flags;
    const job_instructions = {
      ...(maxCases !== undefined && { max_cases: maxCases }),
      ...(maxCost !== undefined && { max_cost: maxCost }),
      ...(maxDuration !== undefined && { max_duration: maxDuration }),
    };
    if (Object.keys(job_instructions).length === 0) {
      throw new UsageError("No limit was raised", "Set --max-cases, --max-cost or --max-duration.");
    }
    return client.post<Job>(`/jobs/${encodeURIComponent(args[0]!)}/resume`, { job_instructions });
  },
  show: ({ id }) => `Job ${id} resumed. Follow it: svc job watch ${id}`,
});
