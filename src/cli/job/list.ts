import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { formatRelative } from "../../core/base/relative-time.ts";
import { EntityStatusSchema } from "../../core/models/entity-status.ts";
import { StopReasonSchema } from "../../core/models/job.ts";
import { ShownStateSchema } from "../../core/models/job-state.ts";
import type { ListedJob } from "../../core/models/listed-job.ts";
import { requestCommand, showList } from "./request-command.ts";

const flags = {
  agent: option.text("only this agent's jobs", "slug"),
  status: v.optional(v.pipe(EntityStatusSchema, v.description("only jobs in this status"))),
  state: v.optional(
    v.pipe(
      ShownStateSchema,
      v.description("only jobs that do this, such as sleeping or held"),
      v.metadata({ value: "state" }),
    ),
  ),
  tag: option.text("only jobs with this tag", "tag"),
  stopReason: v.optional(
    v.pipe(
      StopReasonSchema,
      v.description("only jobs that ended, or are held, for this reason, such as code_changed"),
      v.metadata({ value: "reason" }),
    ),
  ),
  limit: v.optional(v.pipe(v.number(), v.description("how many, newest first")), 20),
};

/** `svc job list`: the newest jobs. */
export const list = requestCommand({
  usage: "list",
  summary: "List jobs, newest first",
  flags,
  examples: [
    "svc job list --status awaiting --stop-reason code_changed",
    "svc job list --agent invoice-audit --limit 5 --json",
  ],
  ask(client, { flags }) {
    const query = new URLSearchParams({
      limit: String(flags.limit),
      ...(flags.status && { status: flags.status }),
      ...(flags.state && { state: flags.state }),
      ...(flags.tag && { tag: flags.tag }),
      ...(flags.stopReason && { stop_reason: flags.stopReason }),
    });
    const path = flags.agent ? `/agents/${encodeURIComponent(flags.agent)}/jobs` : "/jobs";
    return client.get<ListedJob[]>(`${path}?${query}`);
  },
  show(jobs, { context }) {
    const now = new Date();
    const empty = "No matching jobs. Start one: svc job start <agent>";
    return showList(jobs, { empty, header: HEADER, toRow: (job) => toRow(job, now) }, context);
  },
});

const HEADER = ["job", "agent", "status", "created", "message"];

function toRow({ job_id, agent_name, status, created_at, ...job }: ListedJob, now: Date): string[] {
  const message = (job.error_message ?? job.message).split("\n")[0]!.slice(0, 100);
  return [job_id, agent_name, status, formatRelative(new Date(created_at), now), message];
}
