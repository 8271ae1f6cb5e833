import { randomUUID } from "node:crypto";
import { fieldsOf } from "../../agents/fields.ts";
import { refuseUndeclared } from "../../agents/parameters.ts";
import type { HostedAgent } from "../../agents/registry.ts";
import type { Actor } from "../../audit/caller.ts";
import { createJob, type NewJob, sameRequest } from "../../entities/create-job.ts";
import { jobOfKey } from "../../entities/idempotency-keys.ts";
import { ownerOf } from "../../entities/job-files.ts";
import type { Unit } from "../../entities/ledger.ts";
import type { AgentMethodField } from "../../models/agent-method-field.ts";
import type { StoredJob } from "../../models/job.ts";
import type { Cluster, Refusal } from "../cluster/cluster.ts";
import { forkJob } from "../fork/fork-job.ts";
import { checkRequired, type OpenedParameters, openParameters } from "../replay/handler-context.ts";
import type { ForkRequest, StartRequest } from "../runner.ts";
import { type RequestParts, refuseMore, refuseWhenClosing } from "../runner-parts.ts";
import { type Claimed, claimFiles, linkClaimed, whileClaimed } from "./claim-files.ts";
import { toQueuedJob } from "./queued-job.ts";
import type { Slot } from "./slot.ts";
import { fingerprintOf, type NamedRequest, toNewJob, withJobId } from "./start-request.ts";
import type { Allow, Entered } from "./turns.ts";

/** Of a job that the service itself starts. */
export interface Origin {
  /** Fields that no request can set. */
  readonly fields?: Pick<NewJob, "schedule">;
  /** Stored in the unit that stores the job. */
  readonly also?: (unit: Unit, job: StoredJob) => Promise<void>;
}

/** Starts jobs: immediately if there is a free slot, else when their turn comes. */
export class Starts {
  readonly #parts: RequestParts;

  constructor(parts: RequestParts) {
    this.#parts = parts;
  }

  start(slug: string, given: StartRequest, origin?: Origin): Promise<StoredJob> {
    const request = withJobId(given, given.job_context?.job_id ?? randomUUID());
    const key = request.idempotencyKey;
    return key === undefined
      ? this.#start(slug, request, origin)
      : this.#startOnce(slug, request, { key, origin });
  }

  /** Starts a fork of a job. */
  async fork(jobId: string, given: ForkRequest, actor?: Actor): Promise<StoredJob> {
    const request = { ...given, job_id: given.job_id ?? randomUUID() };
    const { job, created } = await forkJob(this.#parts, jobId, request, actor);
    if (created) void this.#parts.turns.queue(job, "start");
    return job;
  }

  async #startOnce(
    slug: string,
    request: NamedRequest,
    { key, origin }: { readonly key: string; readonly origin: Origin | undefined },
  ): Promise<StoredJob> {
    refuseWhenClosing(this.#parts);
    this.#parts.agents.get(slug);
    // A repeated request is answered also where there is no room for a new one.
    const { items } = await this.#parts.jobs.list({ where: { idempotency_key: key }, limit: 1 });
    return items[0] ? sameKeyedRequest(items[0], slug, request) : this.#start(slug, request, origin);
  }

  async #start(slug: string, request: NamedRequest, origin?: Origin): Promise<StoredJob> {
    refuseWhenClosing(this.#parts);
    const agent = this.#parts.agents.get(slug);
    const opening = openParameters(this.#parts, agent, request.encrypted_agent_parameters);
    const opened = opening instanceof Promise ? await opening : opening;
    const { list, hasFiles } = fieldsOf(agent.definition.methods.job_start);
    const given = { request, opened };
    if (!hasFiles) return this.#store(agent, given, origin);
    const claimed = await this.#claim(slug, request, list);
    if ("id" in claimed) return claimed;
    const { files } = this.#parts;
    return whileClaimed(files, claimed, () => this.#store(agent, { ...given, claimed }, origin));
  }

  async #store(
    agent: HostedAgent,
    {
      request,
      opened,
      claimed,
    }: {
      readonly request: NamedRequest;
      readonly opened: OpenedParameters;
      readonly claimed?: Claimed;
    },
    { fields, also }: Origin = {},
  ): Promise<StoredJob> {
    const { jobs, ledger, workspace, clock } = this.#parts;
    const { slug } = agent;
    const made = toNewJob(agent, claimed ? { ...request, job_fields: claimed.fields } : request, {
      parameterNames: Object.keys(opened.values),
      defaults: { workspace, now: clock() },
    });
    const input: NewJob = {
      ...(made instanceof Promise ? await made : made),
      ...fields,
      // Of what was sent, also where an upload is sent again.
      ...(claimed && { fingerprint: fingerprintOf(slug, request) }),
    };
    const link =
      claimed &&
      ((unit: Unit, job: StoredJob) =>
        linkClaimed(unit, this.#parts.files, claimed, { job: ownerOf(job), origin: "field" }));
    let slot: Slot | undefined;
    try {
      if (opened.sent) refuseUndeclared(agent, opened.sent);
      checkRequired(agent, opened.values);
      if (agent.definition.budget?.refuse) await this.#parts.budgets?.refuse(agent.slug);
      if (this.#parts.workspaces?.haveBudgets)
        await this.#parts.budgets?.refuseIn(input.job_context.workspace_id);
      slot = this.#parts.scheduler.tryTake(toQueuedJob(input));
      if (!slot) await refuseMore(this.#parts, request.sight);
    } catch (refusal) {
      // A repeated request is answered also where a new one is refused.
      const before = await jobs.find(input.id);
      if (before) return sameRequest(before, input);
      throw refusal;
    }
    const asked = { input, request, also, link };
    if (slot)
      return this.#parts.runs.exclusively(input.id, () => this.#startIn(slot, asked, { agent, opened }));
    const { job, created } = await ledger.write((unit) => storeJob(unit, asked));
    if (created) void this.#parts.turns.queue(job, "start");
    return job;
  }

  /** The files in the fields of a request; the job that an earlier one like it has started, where they have expired. */
  async #claim(
    slug: string,
    request: NamedRequest,
    list: readonly AgentMethodField[],
  ): Promise<Claimed | StoredJob> {
    const { files, jobs } = this.#parts;
    try {
      return await claimFiles(files, list, request.job_fields ?? {}, {
        ...{ owner: request.uploader, brings: "stored", jobs: request.filesOf },
      });
    } catch (refusal) {
      const before = await jobs.find(request.job_context.job_id);
      if (before) return sameKeyedRequest(before, slug, request);
      throw refusal;
    }
  }

  /** Stores a job together with the beginning of its run, and runs it. */
  async #startIn(
    slot: Slot,
    asked: Asked,
    { agent, opened }: { readonly agent: HostedAgent; readonly opened: OpenedParameters },
  ): Promise<StoredJob> {
    const { cluster, turns } = this.#parts;
    try {
      const { job, created, begun } = await turns.begin(
        slot,
        asked.input,
        (unit, allow) => storeJob(unit, asked, { cluster, allow }),
        () => ({ agent, values: opened.values }),
      );
      if (created && !begun) void turns.queue(job, "start");
      return job;
    } catch (error) {
      slot.release();
      throw error;
    }
  }
}

/** A job that a request asks for. */
interface Asked extends Pick<Origin, "also"> {
  /** Has a new job name the files in its fields. */
  readonly link: Origin["also"];
  readonly input: NewJob;
  readonly request: NamedRequest;
}

/**
 * Decides between requests with one key, whichever instances they have reached. With `starting`, the first run of a new job
 * begins in the same unit, unless its limits are reached.
 */
async function storeJob(
  unit: Unit,
  { input, request, also, link }: Asked,
  starting?: { readonly cluster: Cluster; readonly allow: Allow | undefined },
): Promise<Entered & { readonly job: StoredJob; readonly created: boolean }> {
  const key = request.idempotencyKey;
  const before = key === undefined ? undefined : await jobOfKey(unit.tx, key);
  if (before) return { job: sameKeyedRequest(before, input.agent_name, request), created: false };
  let begin = starting?.cluster.mayBegin === true;
  let refusal: Refusal | undefined;
  if (begin && starting?.allow) {
    // One that already exists counts already.
    const exists = (await unit.tx.get("Job", input.id)) !== undefined;
    refusal = exists ? undefined : await starting.allow(1);
    begin = !exists && refusal === undefined;
  }
  const { job, created } = await createJob(unit, input, { begin, owner: starting?.cluster.owner ?? null });
  if (created && link) await link(unit, job);
  if (also) await also(unit, job);
  return { job, created, refusal, begun: created && begin ? job : undefined };
}

/** The job of a key, if it was created by the same request: the client may make a new id for it each time. */
function sameKeyedRequest(before: StoredJob, agent_name: string, request: NamedRequest): StoredJob {
  const fingerprint = fingerprintOf(agent_name, withJobId(request, before.id));
  return sameRequest(before, { id: before.id, agent_name, fingerprint });
}
