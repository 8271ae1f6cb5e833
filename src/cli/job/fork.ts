import * as v from "valibot";
import { needed, option } from "../../core/base/option.ts";
import type { AgentResponse } from "../../core/models/agent-response.ts";
import type { Job } from "../../core/models/job.ts";
import { defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { readJob } from "./follow-job.ts";
import { readFields } from "./read-fields.ts";
import { newJobId } from "./start.ts";
import { watchJob } from "./watch.ts";

const flags = v.object({
  from: needed.text(
    "the first call that is made again, as svc job show --calls names it; or start, or end",
    "call",
  ),
  set: option.list("another value for an input, name=value or name:=json; may be repeated", "name=value"),
  wait: option.flag("follow the new job to its end", { alias: "w" }),
  verbose: option.flag("with --wait: show every step"),
  id: option.text("id of the new job; repeating it does not start a second job"),
  ...CONNECTION_FLAGS,
});

/** `svc job fork`: starts a new job with the recorded beginning of another one. */
export const fork = defineCommand({
  usage: "fork <job>",
  summary: "Start a new job with what another one recorded before a call; the other one does not change",
  flags,
  examples: [
    "svc job fork job-1f9c2a77 --from step:pay",
    "svc job fork job-1f9c2a77 --from sw-77121098/ask:approve --set factor=5 --wait",
  ],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const original = await readJob(client, args[0]!);
    const agent = await client.get<AgentResponse>(`/agents/${encodeURIComponent(original.agent_name)}`);
    const job = await client.post<Job>(`/jobs/${encodeURIComponent(original.id)}/fork`, {
      from: flags.from,
      fields: readFields(flags.set, agent.methods?.job_start.fields ?? [], "set"),
      job_id: flags.id ?? newJobId(),
    });
    if (flags.wait) {
      if (!flags.json) context.print(`Job ${job.id} started as a fork of ${original.id}`);
      return watchJob(client, job.id, flags, context);
    }
    if (flags.json) context.print(JSON.stringify(job, null, 2));
    else context.print(`Job ${job.id} is a fork of ${original.id}. Follow it: svc job watch ${job.id}`);
    return 0;
  },
});
