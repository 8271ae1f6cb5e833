import { randomUUID } from "node:crypto";
import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import type { AgentResponse } from "../../core/models/agent-response.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobInstructions } from "../../core/models/job-instructions.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { UsageError } from "../errors.ts";
import { listChatAgents } from "../first-command.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import { readFields } from "./read-fields.ts";
import type { ServiceClient } from "./service-client.ts";
import { uploadFiles } from "./upload-files.ts";
import { userName } from "./user-name.ts";
import { watchJob } from "./watch.ts";

const flags = v.object({
  field: option.list(
    "an input, name=value, name:=json or, for a file, name=@path; may be repeated",
    "name=value",
  ),
  wait: option.flag("follow the job to its end", { alias: "w" }),
  verbose: option.flag("with --wait: show every step"),
  id: option.text("id of the job; repeating it does not start a second job"),
  param: option.list("an agent parameter, read from the environment variable of that name", "NAME"),
  workspace: option.text("workspace of the job (default: that of the key or person, else local)"),
  tag: option.list("a tag by which the job is found, such as customer:acme; may be repeated", "tag"),
  mission: option.text("name of the mission; the agent's name by default"),
  maxCases: v.optional(v.pipe(v.number(), v.description("end the job before it opens more cases than this"))),
  maxCost: v.optional(v.pipe(v.number(), v.description("end the job before it costs more than this"))),
  maxDuration: v.optional(v.pipe(v.number(), v.description("end the job after this many seconds"))),
  stopOnWarning: option.choice("end the job at the first warning"),
  stopOnError: v.optional(v.pipe(v.boolean(), v.description("continue when a case fails")), true),
  ...CONNECTION_FLAGS,
});
type Flags = v.InferOutput<typeof flags>;

/** `svc job start`: starts a job of an agent. */
export const start = defineCommand({
  usage: "start <agent>",
  summary: "Start a job of an agent",
  flags,
  examples: [
    "svc job start invoice-audit --wait",
    "svc job start invoice-audit --field folder=/srv/invoices --field factor=5",
    "svc job start hello --field 'names=Ada, Grace' --max-cost 0.01 --json",
    "svc job start contract-review --field contract=@contract.pdf",
  ],
  async run({ args, flags, context }) {
    const slug = args[0]!;
    const client = await connect(flags, context);
    const agent = await client.get<AgentResponse>(`/agents/${encodeURIComponent(slug)}`);
    const parameters = await encryptParameters(client, agent.slug, { names: flags.param, env: context.env });
    const declared = agent.methods?.job_start.fields ?? [];
    const request = {
      job_context: {
        ...toJobContext(flags, agent.name),
        ...(await client.starter(userName(context.env), flags.workspace)),
      },
      job_fields: await uploadFiles(client, readFields(flags.field, declared), { declared, context }),
      ...(parameters && { encrypted_agent_parameters: parameters }),
      ...(flags.tag.length > 0 && { tags: flags.tag }),
    };
    // The id of the job makes it safe to send the request again.
    const job = await client.post<Job>(`/agents/${encodeURIComponent(slug)}/jobs`, request, {
      repeatable: true,
    });
    if (flags.wait) {
      if (!flags.json) context.print(`Job ${job.id} started`);
      return watchJob(client, job.id, flags, context);
    }
    if (flags.json) context.print(JSON.stringify(job, null, 2));
    else {
      const chats = (await listChatAgents(client)).includes(agent.slug);
      const next = chats ? ["chat", agent.slug, "--thread", job.id] : ["job", "watch", job.id];
      context.print(
        `Job ${job.id} started. ${chats ? "Chat in it" : "Follow it"} with:\n\n  ${client.command(...next)}`,
      );
    }
    return 0;
  },
});

/** Chosen here, so that a request that is sent again starts no second job. */
export function newJobId(): string {
  return `job-${randomUUID().slice(0, 8)}`;
}

function toJobContext(flags: Flags, agentName: string): Record<string, unknown> {
  return {
    job_id: flags.id ?? newJobId(),
    started_at: new Date().toISOString(),
    mission_id: "command-line",
    mission_name: flags.mission ?? agentName,
    job_instructions: toInstructions(flags),
  };
}

function toInstructions(flags: Flags): Partial<JobInstructions> | null {
  const { maxCases, maxCost, maxDuration, stopOnWarning, stopOnError } = flags;
  const instructions = {
    ...(maxCases !== undefined && { max_cases: maxCases }),
    ...(maxCost !== undefined && { max_cost: maxCost }),
    ...(maxDuration !== undefined && { max_duration: maxDuration }),
    ...(stopOnWarning && { stop_on_warning: true }),
    ...(!stopOnError && { stop_on_error: false }),
  };
  return Object.keys(instructions).length > 0 ? instructions : null;
}

/** Values come from the environment because arguments are visible in process lists and shell histories. */
async function encryptParameters(
  client: ServiceClient,
  slug: string,
  { names, env }: { readonly names: readonly string[]; readonly env: CliContext["env"] },
): Promise<string | undefined> {
  if (names.length === 0) return undefined;
  const values = names.map((name) => {
    const value = env[name];
    if (value === undefined)
      throw new UsageError(`Environment variable ${name} is not set (--param ${name})`);
    return { name, value };
  });
  const path = `/utils/encrypt?agent=${encodeURIComponent(slug)}`;
  return client.post<string>(path, JSON.stringify(values), { repeatable: true });
}
