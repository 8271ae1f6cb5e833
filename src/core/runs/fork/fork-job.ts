import { hash } from "node:crypto";
import { fieldsOf } from "../../agents/fields.ts";
import { type Actor, nameOf } from "../../audit/caller.ts";
import { inOrder } from "../../base/in-order.ts";
import { createJob, sameRequest } from "../../entities/create-job.ts";
import { jobOfKey } from "../../entities/idempotency-keys.ts";
import { copyFiles, ownerOf } from "../../entities/job-files.ts";
import { jobNotFound } from "../../entities/jobs.ts";
import type { Unit } from "../../entities/ledger.ts";
import { insertCopy } from "../../entities/open-case.ts";
import type { FileValue } from "../../models/file.ts";
import type { StoredJob } from "../../models/job.ts";
import { withIds } from "../../models/run-entry.ts";
import { claimFiles, linkClaimed, whileClaimed } from "../queue/claim-files.ts";
import { toNewJob } from "../queue/start-request.ts";
import { artifactsBy, endsIn, tagsAfter } from "../replay/call-additions.ts";
import type { ForkRequest } from "../runner.ts";
import { asJob, note, type RequestParts, refuseWhenClosing, refuseWhenFull } from "../runner-parts.ts";
import { findCall } from "./call-names.ts";
import { type CaseThen, caseThen } from "./copied-case.ts";
import { filesOfCopy } from "./copied-files.ts";
import { copyRecord } from "./copied-record.ts";

/** A request whose job has an id: the one that was asked for, or a new one. */
export interface NamedForkRequest extends ForkRequest {
  readonly job_id: string;
}

/**
 * Stores a new job that starts with what is recorded of another one before a call. All of it is stored at the same
 * time; of the other job nothing changes. The caller queues it.
 */
export async function forkJob(
  parts: RequestParts,
  jobId: string,
  request: NamedForkRequest,
  actor?: Actor,
): Promise<{ readonly job: StoredJob; readonly created: boolean }> {
  refuseWhenClosing(parts);
  const { jobs, cases, agents, ledger, workspace, clock } = parts;
  const original = await jobs.get(jobId);
  const fingerprint = fingerprintOf(jobId, request);
  const earlier = await findEarlier(parts, request);
  // First of all: the call may have become ambiguous since, and the queue may be full.
  const same = (before: StoredJob) => sameRequest(before, { ...original, id: before.id, fingerprint });
  if (earlier) return { job: same(earlier), created: false };
  const agent = agents.of(original) ?? agents.get(original.agent_name);
  const workspaceOfBoth = original.job_context.workspace_id;
  await refuseWhenFull(parts, { agent: agent.slug, workspace: workspaceOfBoth }, request.sight);
  await parts.budgets?.refuse(agent.slug);
  await parts.budgets?.refuseIn(workspaceOfBoth);
  const entries = (await jobs.log(jobId)).map(({ entry }) => entry);
  const copied = copyRecord(entries, (record) => findCall(record, request.from));
  const kept = endsIn(copied.entries);
  const then: CaseThen[] = [];
  for (const one of copied.cases) {
    const { updates, ...item } = (await cases.find(one.id)) ?? { updates: [] };
    // One that was deleted does not exist in the fork either.
    if ("id" in item) then.push(caseThen({ ...item, last_error: null }, updates, one));
  }

  const { list } = fieldsOf(agent.definition.methods.job_start);
  const claimed = await claimFiles(parts.files, list, request.fields ?? {}, {
    ...{ owner: request.uploader, jobs: [jobId], brings: "stored" },
  });
  const { job_context: context, encrypted_agent_parameters } = original;
  const { job_instructions: limits } = context;
  const by = actor === undefined ? "api" : nameOf(actor);
  const input = await toNewJob(
    agent,
    {
      job_context: {
        ...context,
        job_id: request.job_id,
        started_by: by,
        started_at: clock().toISOString(),
      },
      job_fields: { ...original.job_fields, ...claimed.fields },
      encrypted_agent_parameters,
      ...(original.access !== undefined && { access: original.access }),
      tags: tagsAfter(original.tags, { gone: endsIn(entries), kept }),
      ...(request.idempotencyKey !== undefined && { idempotencyKey: request.idempotencyKey }),
    },
    { parameterNames: [], defaults: { workspace, now: clock() } },
  );
  const readResult = parts.files && ((file: FileValue) => parts.files!.readResult(file));
  const files = await filesOfCopy(input.job_fields, copied.entries, readResult);
  // Those of the original, which a person may have raised; the limit of time counts from the start of the fork.
  const withLimits = {
    ...input.job_context,
    job_instructions: limits && { ...limits, job_start_time: null },
  };
  const { agent_parameters, name } = original;
  const forked_from = { job_id: jobId, line: copied.upTo };
  const store = async (unit: Unit) => {
    if (!(await unit.tx.get("Job", jobId))) throw jobNotFound(jobId);
    const key = request.idempotencyKey;
    const before = key === undefined ? undefined : await jobOfKey(unit.tx, key);
    if (before) return { job: same(before), created: false };
    const made = await createJob(
      unit,
      { ...input, job_context: withLimits, name, agent_parameters, fingerprint, forked_from },
      { cases: then.length },
    );
    if (!made.created) return made;
    const { id } = made.job;
    const job = ownerOf(made.job);
    const ids = new Map<string, string>();
    for (const { item, updates } of then) ids.set(item.id, await insertCopy(unit, id, { item, updates }));
    if (parts.files) {
      const use = { job, limits: parts.files.limits, keeps: artifactsBy(kept) };
      await copyFiles(unit, jobId, { ...use, ...files, caseOf: (one) => ids.get(one) });
    }
    await linkClaimed(unit, parts.files, claimed, { job, origin: "field" });
    const idOf = (one: string) => ids.get(one) ?? `${id}-${one}`;
    // As they are: they were stored without secrets.
    const toCopy = { from: jobId, jobId: id, idOf };
    for (const entry of copied.entries) await unit.tx.append("Run", id, withIds(entry, toCopy));
    const message = `from job ${jobId}, before ${request.from}`;
    await unit.record(id, { type: "mark", mark: "forked", message, by });
    const after = { fork: id, from: request.from, fields: Object.keys(request.fields ?? {}) };
    await note(parts, unit, actor, { action: "job.fork", target: asJob(jobId), after });
    return made;
  };
  return whileClaimed(parts.files, claimed, () => ledger.write(store));
}

/** What an earlier request of the same job id, or of the same key, has stored. */
async function findEarlier(
  { jobs }: RequestParts,
  { job_id, idempotencyKey }: NamedForkRequest,
): Promise<StoredJob | undefined> {
  const earlier = await jobs.find(job_id);
  if (earlier || idempotencyKey === undefined) return earlier;
  return (await jobs.list({ where: { idempotency_key: idempotencyKey }, limit: 1 })).items[0];
}

/** The same for requests that ask for the same. */
function fingerprintOf(jobId: string, { from, fields = {} }: NamedForkRequest): string {
  return hash("sha256", JSON.stringify(inOrder(["fork", jobId, from, fields])), "base64url");
}
