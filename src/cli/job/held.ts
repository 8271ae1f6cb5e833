import * as v from "valibot";
import { textOf } from "../../core/base/errors.ts";
import { needed, option } from "../../core/base/option.ts";
import type { Job } from "../../core/models/job.ts";
import type { JobResponse } from "../../core/models/job-response.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { CliError, UsageError } from "../errors.ts";
import { CONNECTION_FLAGS, connect } from "./connection.ts";
import type { ServiceClient } from "./service-client.ts";

const MANY_FLAGS = {
  allHeld: option.flag("all jobs that are held"),
  agent: option.text("with --all-held: only those of this agent", "slug"),
  ...CONNECTION_FLAGS,
};

interface ManyFlags {
  readonly allHeld: boolean;
  readonly agent?: string | undefined;
  readonly json: boolean;
}

/** `svc job continue`: continues held jobs with the code that the service has. */
export const continueHeld = defineCommand({
  usage: "continue [...jobs]",
  summary: "Continue jobs that are held because their record does not fit the code, with the current code",
  flags: v.object(MANY_FLAGS),
  examples: ["svc job continue job-1f9c2a77", "svc job continue --all-held --agent invoice-auditor"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const what = (id: string) => client.post<Job>(`/jobs/${encodeURIComponent(id)}/continue`, {});
    return changeAll(await idsOf(client, args, flags), what, flags, context);
  },
});

/** `svc job move`: gives open jobs another version of their agent. */
export const move = defineCommand({
  usage: "move [...jobs]",
  summary: "Move open jobs to another version of their agent, where their record fits it",
  flags: v.object({
    to: needed.text("version of the agent", "version"),
    ...MANY_FLAGS,
  }),
  examples: ["svc job move job-1f9c2a77 --to 2.0.0"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const body = { version: flags.to };
    const what = (id: string) => client.post<Job>(`/jobs/${encodeURIComponent(id)}/move`, body);
    return changeAll(await idsOf(client, args, flags), what, flags, context);
  },
});

async function idsOf(
  client: ServiceClient,
  named: readonly string[],
  { allHeld, agent }: ManyFlags,
): Promise<string[]> {
  if (!allHeld && named.length > 0) return [...named];
  if (!allHeld) throw new UsageError("No job was named", "Name jobs, or add --all-held.");
  const path = agent === undefined ? "/jobs" : `/agents/${encodeURIComponent(agent)}/jobs`;
  const ids: string[] = [];
  for (;;) {
    const query = `stop_reason=code_changed&status=awaiting&limit=1000&skip=${ids.length}`;
    const page = await client.get<JobResponse[]>(`${path}?${query}`);
    ids.push(...page.map(({ job_id }) => job_id));
    if (page.length < 1000) return ids;
  }
}

/** Changes one job after the other; the exit code is 1 where one could not be. */
async function changeAll(
  ids: readonly string[],
  change: (id: string) => Promise<Job>,
  { json }: ManyFlags,
  context: CliContext,
): Promise<number> {
  const results: { id: string; status: string | null; error: string | null }[] = [];
  for (const id of ids) {
    try {
      const { status } = await change(id);
      results.push({ id, status, error: null });
    } catch (error) {
      if (!(error instanceof CliError) || ids.length === 1) throw error;
      results.push({ id, status: null, error: textOf(error) });
    }
  }
  if (json) context.print(JSON.stringify(results, null, 2));
  else {
    for (const { id, status, error } of results) context.print(`${id}: ${error ?? `continues (${status})`}`);
    if (results.length === 0) context.print("No job is held.");
  }
  return results.some(({ error }) => error !== null) ? 1 : 0;
}
