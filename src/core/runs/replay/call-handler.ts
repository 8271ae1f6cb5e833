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
  type OpenedParameters,
  openParameters,
  servicesOf,
  toHandlerContext,
  whyUnreadable,
} from "./handler-context.ts";
import { RunJob } from "./job-handle.ts";
import type { Run } from "./run.ts";
import { HeldError } from "./run-errors.ts";
import { withContext } from "./with-signal.ts";

export interface HandlerCall {
  readonly run: Run;
  readonly job: StoredJob;
  readonly agent: HostedAgent;
  /** The job's parameters, where they are open already. */
  readonly values?: Readonly<Record<string, string>> | undefined;
  /** Read the job and its cases as they are stored. */
  readonly readJob: () => Promise<Job>;
  readonly readCase: (id: string) => Promise<Case>;
  /** Makes what its handler starts children with: most start none. */
  readonly children: () => ChildrenOfJob;
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
  const parameters = values ?? (await run.ledger.read(() => readParameters(parts, agent, job)));
  checkRequired(agent, parameters);
  const services = servicesOf(parts, agent, job.id);
  let isolated: IsolatedRun | undefined;
  const handle = new RunJob(run, {
    context: job.job_context,
    readJob: () => run.ledger.read(call.readJob),
    readCase: (id) => run.ledger.read(() => call.readCase(id)),
    children,
    events,
    createdAt: job.created_at,
    onAnswer: agent.definition.methods.human_answer && answerHandler(parts, call, () => isolated),
  });
  const { processes } = parts;
  if (agent.definition.isolate && processes) {
    const context = { ...services, parameters, log: run.handlerLog };
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
  return method.run(withContext(run, { ...services, parameters, job: handle, fields: fields.values }));
}

/** The parameters of a job; where they cannot be read, it is held. */
async function readParameters(
  parts: HandlerParts,
  agent: HostedAgent,
  job: StoredJob,
): Promise<OpenedParameters["values"]> {
  try {
    return (await openParameters(parts, agent, job.encrypted_agent_parameters)).values;
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
  const method = agent.definition.methods.human_answer!;
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
