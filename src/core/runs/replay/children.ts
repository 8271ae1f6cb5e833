import { fieldsOf } from "../../agents/fields.ts";
import { readInstructions } from "../../agents/instructions.ts";
import { refuseUndeclared } from "../../agents/parameters.ts";
import type { AgentRegistry } from "../../agents/registry.ts";
import { isServiceError } from "../../base/errors.ts";
import type { Redactor } from "../../base/redactor.ts";
import type { NewJob } from "../../entities/create-job.ts";
import type { Files } from "../../entities/files.ts";
import type { Jobs } from "../../entities/jobs.ts";
import { isTerminal } from "../../models/entity-status.ts";
import type { StoredJob } from "../../models/job.ts";
import { isIn } from "../../models/job-state.ts";
import type { JobEnds } from "../operate/job-ends.ts";
import { claimFiles } from "../queue/claim-files.ts";
import { toNewJob } from "../queue/start-request.ts";
import type { ChildOrder, ChildrenOfJob, StopOrder } from "./child-handle.ts";
import { checkRequired, type HandlerParts, openParameters } from "./handler-context.ts";
import type { RunEnd } from "./run-errors.ts";

/** Generations of children: an agent that starts itself without end is refused beyond it. */
const DEEPEST = 100;

export interface ChildrenParts extends HandlerParts {
  readonly agents: AgentRegistry;
  readonly jobs: Jobs;
  readonly redactor: Redactor;
  readonly files?: Files | undefined;
  readonly clock: () => Date;
  readonly ends: JobEnds;
  /** Has a stored job run when its turn comes; it waits also where the queue is full. */
  readonly queue: (job: StoredJob) => void;
  /** Stops a child of a job. */
  readonly stop: (parent: string, id: string, order: StopOrder) => Promise<void>;
}

/** What a job's handler can do with children of the job. */
export function childrenOf(parts: ChildrenParts, parent: StoredJob): ChildrenOfJob {
  return {
    prepare: (order) => prepare(parts, parent, order),
    queue: parts.queue,
    stop: (id, order) => parts.stop(parent.id, id, order),
    nextEnd: (id) => parts.ends.next(id),
  };
}

async function prepare(parts: ChildrenParts, parent: StoredJob, order: ChildOrder): Promise<NewJob> {
  const { agents, clock, redactor } = parts;
  const { options } = order;
  await refuseTooDeep(parts, parent);
  const agent = agents.get(order.agent);
  // Fields are stored unmasked, and a masked value would be of no use to the child.
  if (redactor.json(order.fields) !== order.fields) {
    throw new Error(
      `The fields for agent "${agent.slug}" contain a secret, which is not stored: declare it as a parameter of that agent, and send it with passParameters`,
    );
  }
  const encrypted = options.passParameters ? parent.encrypted_agent_parameters : null;
  const { sent, values } = await openParameters(parts, agent, encrypted);
  if (sent) refuseUndeclared(agent, sent);
  checkRequired(agent, values);
  const { workspace_id, started_by, mission_id, mission_context } = parent.job_context;
  const request = {
    job_context: {
      ...{ workspace_id, started_by, mission_id, mission_context },
      job_id: order.id,
      mission_name: options.name ?? agent.definition.name,
      job_instructions: options.instructions ? readInstructions(options.instructions) : null,
    },
    job_fields: order.fields,
    encrypted_agent_parameters: encrypted,
    ...(parent.access !== undefined && { access: parent.access }),
    // Also those that it has got since it was started.
    tags: (await parts.jobs.find(parent.id))?.tags,
  };
  const defaults = { workspace: workspace_id, now: clock() };
  try {
    const { list, hasFiles } = fieldsOf(agent.definition.methods.job_start);
    // Only files that the parent has.
    if (hasFiles) await claimFiles(parts.files, list, order.fields, { jobs: [parent.id] });
    const job = await toNewJob(agent, request, { parameterNames: Object.keys(values), defaults });
    const { detached = false } = options;
    return { ...job, parent: { job_id: parent.id, call: order.call, detached } };
  } catch (error) {
    if (!isServiceError(error) || error.detail === undefined) throw error;
    throw new Error(`${error.message}: ${error.detail}`, { cause: error });
  }
}

async function refuseTooDeep({ jobs }: ChildrenParts, parent: StoredJob): Promise<void> {
  let above = parent.parent;
  for (let depth = 1; above; depth++) {
    if (depth >= DEEPEST) {
      throw new Error(
        `The job is a child of a child, and so on, ${DEEPEST} times: it cannot start another one. Does its agent start itself without end?`,
      );
    }
    above = (await jobs.find(above.job_id))?.parent ?? null;
  }
}

/** Why a job ends whose parent did not complete: its status, `restarted`, or `undefined` if it was removed. */
export function endOfParent(id: string, status: string | undefined): RunEnd {
  const what =
    status === undefined
      ? "was removed"
      : status === "failed"
        ? "failed"
        : status === "restarted"
          ? "was started over"
          : "was cancelled";
  return {
    to: "cancelled",
    reason: "parent_ended",
    message: `The job was stopped: its parent "${id}" ${what}`,
  };
}

/** Why a job ends that its parent stops. */
export function stoppedByParent(id: string): RunEnd {
  return { to: "cancelled", reason: "stopped", message: `The job was stopped by its parent "${id}"` };
}

export interface ParentEndParts extends Pick<ChildrenParts, "jobs" | "agents"> {
  /** `owner` is null where only this process has the store. */
  readonly cluster: { readonly owner: string | null };
}

/** Why a child does not resume: its parent ended without completing, and then the process; or it is started over. */
export async function parentEndOf(
  { jobs, agents, cluster }: ParentEndParts,
  { parent }: StoredJob,
): Promise<RunEnd | undefined> {
  if (!parent || parent.detached) return undefined;
  const above = await jobs.find(parent.job_id);
  if (above?.status === "completed") return undefined;
  if (!above || isTerminal(above.status)) return endOfParent(parent.job_id, above?.status);
  const isInterrupted = isIn(above, "running", "waiting", "suspended");
  // An owner stops them itself. Where only this process has the store, an owner is of the store from which the job was moved.
  const isOwned = cluster.owner !== null && Boolean(above.owner);
  const isStartedOver =
    isInterrupted && !isOwned && agents.of(above)?.definition.onInterruption === "restart";
  return isStartedOver ? endOfParent(parent.job_id, "restarted") : undefined;
}
