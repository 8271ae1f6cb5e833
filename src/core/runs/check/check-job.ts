import type { AgentRegistry, HostedAgent } from "../../agents/registry.ts";
import { messageOf } from "../../base/error-text.ts";
import { MASK, Redactor } from "../../base/redactor.ts";
import type { Case } from "../../models/case.ts";
import { type StoredJob, toJob } from "../../models/job.ts";
import { holdOf } from "../../models/job-state.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { AgentProcesses } from "../isolation/agent-processes.ts";
import type { HandlerParts } from "../replay/handler-context.ts";
import type { Rehearsed } from "../replay/rehearsal.ts";
import { RunRecord } from "../replay/run-record.ts";
import { rehearse } from "./rehearse.ts";

/** An open job as it is checked: what is recorded of it, without anything secret. */
export interface OpenJob {
  readonly job: StoredJob;
  readonly cases: readonly Case[];
  readonly log: readonly RunEntry[];
}

/** What would happen to a job under other code; nothing was run or stored. */
export interface CheckedJob {
  readonly id: string;
  readonly agent: string;
  /**
   * `fits`: it resumes. `held`: its record does not fit the code. `fails`: it would end immediately. `waits`:
   * its agent is missing. `unsure`: its handler did not make a recorded call in time, and may still make it, so the
   * check has no result.
   */
  readonly verdict: "fits" | "held" | "fails" | "waits" | "unsure";
  /** Version of the agent that made the record, and of the one that it was given to. */
  readonly from: string | null;
  readonly to: string | null;
  /** The recorded call that the code does not make, and the one that it makes instead. */
  readonly expected: string | null;
  readonly found: string | null;
  readonly message: string | null;
  /** Recorded calls that the code no longer makes, and that it continues without. */
  readonly skipped: readonly string[];
}

/** Gives an open job's record to the code that is here: no step runs, nothing is stored. */
export async function checkJob(
  agents: AgentRegistry,
  open: OpenJob,
  given: Pick<Given, "env" | "processes">,
): Promise<CheckedJob> {
  const { job } = open;
  const agent = agents.of(job);
  const about = {
    id: job.id,
    agent: job.agent_name,
    from: job.agent_version ?? null,
    expected: null,
    found: null,
    skipped: [],
  };
  if (!agent) {
    const message = `Agent "${job.agent_name}" is not registered: the job waits until it is`;
    return { ...about, verdict: "waits", to: null, message };
  }
  const to = agent.definition.version;
  try {
    const { end, skipped, ...rehearsed } = await rehearseOpen(agent, open, given);
    if (end === undefined)
      return { ...about, verdict: "fits", to, message: null, skipped: skipped.map(({ label }) => label) };
    if (end === "unsure") return { ...about, verdict: "unsure", to, message: whyUnsure(rehearsed) };
    const { message, held, reason } = end;
    // One that is held is not resumed where its handler would end its process.
    const stays = holdOf(job) === "code_changed" && reason === "crashed";
    if (!held) return { ...about, verdict: stays ? "held" : "fails", to, message };
    const { expected, found } = held;
    return {
      ...about,
      verdict: "held",
      to,
      from: about.from ?? held.recorded.version,
      expected,
      found,
      message,
    };
  } catch (error) {
    return { ...about, verdict: "fails", to, message: messageOf(error) };
  }
}

/** Why it is not known whether a record fits. */
export function whyUnsure({ missing, next }: Pick<Rehearsed, "missing" | "next">): string {
  const what = `The handler has not made ${missing?.label}, which is recorded`;
  const running = next.find(({ kind, hasTrace }) => kind === "step" && hasTrace);
  return running
    ? `${what}; whether it continues without it is known once ${running.label} has ended`
    : `${what}, and waits for something that is not recorded`;
}

interface Given {
  /** Where the values of parameters are. */
  readonly env: Environment;
  /** The processes of isolated agents; without them, these run in this process, as in a debugger. */
  readonly processes?: AgentProcesses | undefined;
  /** Milliseconds that it takes at most. */
  readonly longest?: number | undefined;
}

/** Gives a job's record to an agent outside of a service, in a process that may have nothing else to do. */
export async function rehearseOpen(
  agent: HostedAgent,
  { job, log, cases }: OpenJob,
  { env, processes, longest }: Given,
): Promise<Rehearsed> {
  const values = valuesFor(agent, env);
  // The timers of a run, and what a handler waits for, do not keep a process alive.
  const alive = setInterval(() => {}, A_WHILE);
  return await rehearse({ ...NO_PARTS, processes } as HandlerParts, {
    ...{ job, agent, readRecord: () => RunRecord.read(log), values, longest },
    redact: redactLike(log, agent, values),
    readJob: async () =>
      toJob(
        job,
        cases.map(({ id }) => id),
      ),
    readCase: async (id) => cases.find((item) => item.id === id)!,
  }).finally(() => clearInterval(alive));
}

/**
 * Masks as the record is masked: the values that are known here, and, since others may not be, whatever makes a name one
 * that is recorded with a mask.
 */
function redactLike(
  log: readonly RunEntry[],
  { definition }: HostedAgent,
  values: Readonly<Record<string, string>>,
): (text: string) => string {
  const redactor = new Redactor();
  for (const { name, is_secret } of definition.parameters ?? [])
    if (is_secret !== false && values[name] !== UNKNOWN) redactor.add(values[name]);
  const masked = new Map<string, RegExp>();
  for (const entry of log) {
    for (const text of "position" in entry ? [entry.name, entry.key ?? ""] : [])
      if (text.includes(MASK)) masked.set(text, toPattern(text));
  }
  return (text) => {
    const clean = redactor.text(text);
    if (masked.size === 0 || masked.has(clean)) return clean;
    return [...masked].find(([, pattern]) => pattern.test(clean))?.[0] ?? clean;
  };
}

function toPattern(name: string): RegExp {
  const parts = name.split(MASK).map((part) => part.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  return new RegExp(`^${parts.join(".+")}$`, "s");
}

type Environment = Readonly<Record<string, string | undefined>>;

const A_WHILE = 60_000;

/** In place of a parameter's value. */
const UNKNOWN = "not known here";

/** A handler may ask for its parameters, whose values are not known here. */
function valuesFor({ definition }: HostedAgent, env: Environment): Record<string, string> {
  const known = (definition.parameters ?? []).map(({ name, value }) => [name, env[name] || value || UNKNOWN]);
  return Object.fromEntries(known);
}

/** A handler outside of a service: nobody hears what it tells. */
const NO_PARTS = {
  hooks: { emit() {} },
  get: () => {
    throw new Error("There is no service here: the job is only checked");
  },
} as unknown as Partial<HandlerParts>;
