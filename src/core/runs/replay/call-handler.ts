import { describeProblems, fieldsOf } from "../../agents/fields.ts";
import type { HostedAgent } from "../../agents/registry.ts";
import type { Case } from "../../models/case.ts";
import type { Job, StoredJob } from "../../models/job.ts";
import type { AnswerEntry } from "../../models/run-entry.ts";
import type { AgentProcess } from "../isolation/agent-process.ts";
import { IsolatedRun } from "../isolation/isolated-run.ts";
import type { ChildrenOfJob } from "./child-handle.ts";
import type { EventsOfJob } from "./event-wait.ts";
import {
  callMethod,
  checkRequired,
  type HandlerParts,
  type OpenedContext,
  toHandlerContext,
  whyUnreadable,
} from "./handler-context.ts";
import { RunJob } from "./job-handle.ts";
import type { Run } from "./run.ts";
import { HeldError } from "./run-errors.ts";
import { silenced } from "./silenced.ts";
import { withSignal } from "./with-signal.ts";

export interface HandlerCall {
  readonly run: Run;
  readonly job: StoredJob;
  readonly agent: HostedAgent;
  /** The job's parameters, where they are open already. */
  readonly values?: Readonly<Record<string, string>> | undefined;
  /** Read the job and its cases as they are stored. */
  readonly readJob: () => Promise<Job>;
  readonly readCase: (id: string) => Promise<Case>;
  readonly children: ChildrenOfJob;
  readonly events: EventsOfJob;
  /** The process of an isolated agent has ended, and the tries of its steps are being recorded as failed. */
  readonly relaunch?: () => void;
  /** The process for an isolated agent, where it is started already. */
  readonly process?: AgentProcess | undefined;
  /** Is given what runs the handler in another process, to be ended with the run. */
  readonly onIsolated?: (isolated: IsolatedRun) => void;
}

/** Calls an agent's `job_start` for a run. */
export async function callHandler(parts: HandlerParts, call: HandlerCall): Promise<unknown> {
  const { run, job, agent, values, children, events } = call;
  const method = agent.definition.methods.job_start;
  const checking = fieldsOf(method).check(job.job_fields);
  const fields = checking instanceof Promise ? await checking : checking;
  if (!fields.ok) {
    throw new Error(`The job's fields no longer match the agent: ${describeProblems(fields.problems)}`);
  }
  const known = { parameters: values, log: silenced(run.parts.log, () => run.gate.isSilent) };
  const opened = await run.ledger.read(() => openContext(parts, { agent, job, known }));
  const { parameters, log, telemetry, get } = opened;
  checkRequired(agent, parameters);
  let isolated: IsolatedRun | undefined;
  const handle = new RunJob(run, {
    context: job.job_context,
    readJob: () => run.ledger.read(call.readJob),
    readCase: (id) => run.ledger.read(() => call.readCase(id)),
    children,
    events,
    createdAt: job.created_at,
    onAnswer: answerHandler(parts, call, () => isolated),
  });
  const { processes } = parts;
  if (agent.definition.isolate && processes) {
    const context = { parameters, log, telemetry, get };
    const process = call.process ?? (await processes.take(agent));
    if (run.isOver) {
      processes.release(process);
      throw run.signal.reason;
    }
    isolated = new IsolatedRun({
      ...{ run, agent: agent.slug, process, processes, handle, context, fields: job.job_fields },
      relaunch: () => call.relaunch?.(),
    });
    call.onIsolated?.(isolated);
    return isolated.start();
  }
  run.gate.begin();
  const given = { parameters, log, telemetry, get, job: handle, fields: fields.values };
  return method.run(withSignal(run, given));
}

/** What the handler gets, unless the job's parameters cannot be read: then the job is held. */
async function openContext(
  parts: HandlerParts,
  {
    agent,
    job,
    known,
  }: Pick<HandlerCall, "agent" | "job"> & { readonly known: Parameters<typeof toHandlerContext>[3] },
): Promise<OpenedContext> {
  try {
    return await toHandlerContext(parts, agent, job, known);
  } catch (error) {
    const why = await whyUnreadable(parts, agent, job);
    throw why === undefined ? error : new HeldError(why);
  }
}

function answerHandler(
  parts: HandlerParts,
  { run, job, agent, readJob, readCase }: HandlerCall,
  isolated: () => IsolatedRun | undefined,
) {
  const method = agent.definition.methods.human_answer;
  if (!method) return undefined;
  return async (caseId: string, { answer, message = null }: AnswerEntry): Promise<void> => {
    if (run.isRehearsal) return;
    const context = await run.ledger.read(() => toHandlerContext(parts, agent, job));
    const found = {
      job: await run.ledger.read(readJob),
      case: await run.ledger.read(() => readCase(caseId)),
    };
    const told = { ...found, answer, message };
    const elsewhere = isolated();
    const here = elsewhere
      ? { ...method, run: (given: object) => elsewhere.call("human_answer", { ...given }) }
      : method;
    await callMethod("human_answer", here, (signal) => ({ ...context, ...told, signal }), run.signal);
  };
}
