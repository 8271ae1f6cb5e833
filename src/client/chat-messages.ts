import type { Case } from "../core/models/case.ts";
import type { RunEntry } from "../core/models/run-entry.ts";
import { hasEnded } from "./job-result.ts";
import type { JobState } from "./job-view.ts";

/** A message of a thread, as a page shows it. */
export interface ShownMessage {
  /** Stays the same while the message is shown. */
  readonly id: string;
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
  /** `sent` until the thread has taken it, `writing` while the answer is made, `failed` if it failed. */
  readonly status: "sent" | "done" | "writing" | "failed";
  /** Why an answer failed. */
  readonly error?: string;
  /** The case of an answer, with its steps and questions. */
  readonly turn?: Case;
}

/** A message that this page has sent. */
export interface SentMessage {
  readonly id: string;
  readonly content: string;
  /** The case whose question it answers. */
  readonly turn?: string;
  /** What came of an answer. */
  readonly answer?: { readonly accepted: boolean; readonly note: string | null };
}

/** The messages of a thread, oldest first, by what is known of its job. */
export function chatMessages(
  { job, entries, cases, output }: JobState<unknown>,
  sent: readonly SentMessage[],
): readonly ShownMessage[] {
  const shown: ShownMessage[] = [];
  const { history = [], message } = (job?.job_fields ?? {}) as ThreadFields;
  for (const [at, { role, content }] of history.entries())
    shown.push({ id: `${HISTORY}${at}`, role, content, status: "done" });
  const taken = entries.flatMap(asMessage);
  const asked = [...(message === undefined ? [] : [{ id: "first", content: message }]), ...taken];
  const turns = new Map(cases.map((item) => [item.ref, item]));
  for (const [at, { id, content }] of asked.entries()) {
    shown.push({ id, role: "user", content, status: "done" });
    const turn = turns.get(`turn-${at + 1}`);
    if (!turn) continue;
    shown.push(...sent.filter((one) => one.turn === turn.id).flatMap(asAnswer));
    const live = output.filter(({ case_id }) => case_id === turn.id).map(({ text }) => text);
    const answer = turn.final_delivery?.answer;
    const status = turn.status === "completed" ? "done" : turn.status === "failed" ? "failed" : "writing";
    const text = typeof answer === "string" ? answer : live.join("");
    const error = status === "failed" ? turn.updates.findLast((update) => update.error)?.error : undefined;
    shown.push({ id: turn.id, role: "assistant", content: text, status, ...(error && { error }), turn });
  }
  const known = new Set(taken.map(({ id }) => id));
  for (const { id, content, turn } of sent)
    if (!known.has(id) && turn === undefined) shown.push({ id, role: "user", content, status: "sent" });
  return shown;
}

/** Whether an answer is being written, waits for an answer to its question, or is about to begin. */
export function isAnswering(
  { entries, status }: JobState<unknown>,
  messages: readonly ShownMessage[],
): boolean {
  if (messages.some((one) => one.status === "writing" || one.status === "sent")) return true;
  const last = messages.at(-1);
  if (last?.role !== "user" || last.id.startsWith(HISTORY) || hasEnded({ status })) return false;
  // Taken, and its turn is not known yet. A reader without the right to read cases learns of no turn, but of its end.
  const taken = entries.findLastIndex((entry) => asMessage(entry).length > 0);
  return !entries.slice(taken + 1).some((entry) => entry.type === "call" && entry.call === "close");
}

/** An answer in words, and why it was not accepted, in the conversation that this page has seen. */
function asAnswer({ id, content, answer }: SentMessage): ShownMessage[] {
  const said: ShownMessage = { id, role: "user", content, status: answer ? "done" : "sent" };
  if (!answer || answer.note === null) return [said];
  return [said, { id: `${id}-note`, role: "assistant", content: answer.note, status: "done" }];
}

/** How the ids of messages from before the thread begin. */
const HISTORY = "history-";

interface ThreadFields {
  readonly history?: readonly { readonly role: ShownMessage["role"]; readonly content: string }[];
  readonly message?: string;
}

/** The message that a thread has taken with this entry. */
function asMessage(entry: RunEntry): SentMessage[] {
  if (entry.type !== "call" || entry.call !== "event") return [];
  const { id, data } = (entry.result ?? {}) as { id?: string; data?: { content?: unknown } };
  return typeof data?.content === "string" ? [{ id: String(id), content: data.content }] : [];
}
