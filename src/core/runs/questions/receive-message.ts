import { ServiceError } from "../../base/errors.ts";
import type { Files } from "../../entities/files.ts";
import { ownerOf } from "../../entities/job-files.ts";
import { jobNotFound } from "../../entities/jobs.ts";
import { keepRequest, keptRequest } from "../../entities/keyed-requests.ts";
import type { Unit } from "../../entities/ledger.ts";
import { receiveEvent } from "../../entities/received-events.ts";
import { isTerminal } from "../../models/entity-status.ts";
import { messageEvent } from "../../models/message-event.ts";
import type { EventWait } from "../../models/received-event.ts";
import { type Claimed, linkClaimed } from "../queue/claim-files.ts";
import type { SentMessage } from "../runner.ts";

/** Adds a message to a thread inside a unit, unless it came before; `waits` are those that it was given to. */
export async function receiveMessage(
  unit: Unit,
  jobId: string,
  { content, id, once }: SentMessage,
  link?: { readonly files: Files | undefined; readonly claimed: Claimed },
): Promise<{ readonly waits: readonly EventWait[] }> {
  const { tx } = unit;
  if (once && (await keptRequest(tx, jobId, once))) return { waits: [] };
  const job = await tx.get("Job", jobId);
  if (!job) throw jobNotFound(jobId);
  const name = messageEvent(jobId);
  // Of version 0.1.0, messages have no other record.
  const isKnown = once && (await tx.get("ReceivedEvent", `${name}/${id}`));
  if (isTerminal(job.status) && !isKnown) {
    throw new ServiceError("invalid_transition", `Thread "${jobId}" has ended: it is ${job.status}`, {
      detail: job.error ?? "Start a new one.",
    });
  }
  const data = { content, ...link?.claimed.fields };
  const received = await receiveEvent(unit, { name, event_id: id, data });
  if (link) {
    await linkClaimed(unit, link.files, link.claimed, { job: ownerOf(job), origin: "field" });
  }
  if (once) await keepRequest(unit, jobId, isKnown ? { ...once, after: 0 } : once);
  return received;
}
