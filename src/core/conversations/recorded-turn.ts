import {
  type ChatMessage,
  historyOf,
  isFirstMessage,
  readMessage,
  type StoredChatFields,
  type TurnDelivery,
  toMessage,
} from "../agents/define-chat.ts";
import type { Cases } from "../entities/cases.ts";
import type { Jobs } from "../entities/jobs.ts";
import { isTerminal } from "../models/entity-status.ts";
import { messageEvent } from "../models/message-event.ts";
import type { RunEntry } from "../models/run-entry.ts";
import { recordedChunks } from "../runs/emissions/recorded-chunks.ts";
import type { Store } from "../store/store.ts";
import type { ThreadFeed } from "./follow-turn.ts";

/** A handler may open cases of its own in a turn. */
const TURN = /^turn-\d+$/;

interface RecordParts {
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly store: Store;
}

/** Gives what is recorded of threads until now, and waits for nothing more. */
export function recordedFeed({ jobs, store }: RecordParts): ThreadFeed {
  const log = store.log("Run");
  return {
    last: (jobId) => log.last(jobId),
    async *watch(jobId, { after = 0 }) {
      // The job is read before its log: once a job has ended, its log is complete.
      const job = await jobs.find(jobId);
      for (const { seq, entry } of await log.read(jobId, { after })) {
        const chunks = recordedChunks(entry);
        if (chunks) yield { event: "chunk", data: chunks };
        yield { event: entry.type, id: seq, data: entry };
      }
      if (!job || isTerminal(job.status)) yield { event: "end", data: {} };
    },
  };
}

/** The entries of a log since its job was last started over: what came before no longer counts. */
export function currentPart<E extends { readonly entry: RunEntry }>(log: readonly E[]): readonly E[] {
  return log.slice(log.findLastIndex(({ entry }) => entry.type === "mark" && entry.mark === "restarted") + 1);
}

/** The messages of a thread up to the one that a turn answers, as `reply` was given them. */
export async function messagesUntil(
  { jobs, cases, store }: RecordParts,
  jobId: string,
  caseId: string,
): Promise<ChatMessage[]> {
  const fields = (await jobs.get(jobId)).job_fields as StoredChatFields;
  const messages = historyOf(fields);
  const { message: content, files } = fields;
  if (isFirstMessage(fields)) messages.push(toMessage({ role: "user", content: content ?? "", files }));
  for (const { entry } of currentPart(await store.log("Run").read(jobId, { after: 0 }))) {
    if (entry.type !== "call") continue;
    if (entry.call === "open_case" && entry.result === caseId) break;
    if (entry.call === "event" && entry.name === messageEvent(jobId) && !entry.error) {
      const { data } = entry.result as { readonly data: unknown };
      messages.push(toMessage({ role: "user", ...readMessage(data) }));
    }
    const item = entry.call === "close" && entry.case_id ? await cases.summary(entry.case_id) : undefined;
    if (item?.status !== "completed" || !TURN.test(item.ref)) continue;
    const { answer, files } = item.final_delivery as unknown as TurnDelivery;
    messages.push(toMessage({ role: "assistant", content: answer, files }));
  }
  return messages;
}
