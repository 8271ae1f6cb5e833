import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { type ChatFields, type ChatMessage, isFirstMessage } from "../agents/define-chat.ts";
import type { AgentRegistry } from "../agents/registry.ts";
import { readFlat } from "../agents/to-json-schema.ts";
import { isServiceError, ServiceError } from "../base/errors.ts";
import { isRecord } from "../base/is-record.ts";
import type { Cases } from "../entities/cases.ts";
import type { Jobs } from "../entities/jobs.ts";
import { findKeptRequest, keepRequest, keptRequest, requestWithKey } from "../entities/keyed-requests.ts";
import { isTerminal } from "../models/entity-status.ts";
import type { StoredJob } from "../models/job.ts";
import type { AnsweredQuestion } from "../models/keyed-request.ts";
import { messageEvent } from "../models/message-event.ts";
import { agreement, type Question } from "../models/question.ts";
import { keyOf, partsOfKey } from "../models/question-key.ts";
import type { AnswerEntry } from "../models/run-entry.ts";
import type { ShownQuestion } from "../models/shown-question.ts";
import { type AskingCase, answerByKey, openQuestions } from "../runs/questions/open-questions.ts";
import type { Runner } from "../runs/runner.ts";
import type { Store } from "../store/store.ts";
import { approvalField } from "./approval-field.ts";
import { findQuestion, followTurn, type ThreadFeed, type TurnEvent } from "./follow-turn.ts";
import { readReply } from "./read-reply.ts";
import { currentPart, messagesUntil, recordedFeed } from "./recorded-turn.ts";
import { findShown, isSaidAgain, readReference, referenceOf, showQuestion } from "./shown-questions.ts";
import {
  firstTurn,
  type GivenAnswer,
  keyOfStart,
  type SentChatMessage,
  type SentTurn,
  type ShownEvent,
  saidIn,
  senderOf,
  type ThreadMessage,
  type ThreadStart,
  toFields,
  turnOf,
} from "./thread-message.ts";

/** What threads need. */
export interface ThreadsParts {
  readonly agents: AgentRegistry;
  readonly runner: Runner;
  readonly jobs: Jobs;
  readonly cases: Cases;
  readonly feed: ThreadFeed;
  readonly store: Store;
  readonly clock: () => Date;
}

/** Says why a text is not taken as an answer. */
const SAID_BEFORE = "This is what was said before the question. To answer it, say so in other words.";
const NOT_ANSWERED = "The reply was not understood as an answer.";
const NO_FILES = "This is answered without files. Send them once it is.";

/** Threads of agents that `defineChat` has made: each is a job, whose messages are events. */
export class Threads {
  readonly #parts: ThreadsParts;

  constructor(parts: ThreadsParts) {
    this.#parts = parts;
  }

  /** Slugs of the agents that people can chat with. */
  agents(): string[] {
    return this.#parts.agents.list().flatMap(({ slug, definition }) => (definition.chats ? [slug] : []));
  }

  /** The slug of an agent that people can chat with, or `agent_not_found`. */
  agent(slug: string): string {
    const found = this.#parts.agents.find(slug);
    if (found?.definition.chats) return found.slug;
    throw new ServiceError("agent_not_found", `There is no chat agent "${slug}"`, {
      detail: `Chat agents: ${this.agents().join(", ") || "none"}. Define one with defineChat.`,
    });
  }

  /** The thread with this id, if it exists; another job is refused. */
  async find(id: string): Promise<StoredJob | undefined> {
    const job = await this.#parts.jobs.find(id);
    if (!job || this.#parts.agents.find(job.agent_name)?.definition.chats) return job;
    throw new ServiceError("invalid_transition", `Job "${id}" is not a thread of a chat`, {
      detail: "Its agent must be defined with defineChat.",
    });
  }

  /** Starts a thread with a message. */
  async start(slug: string, fields: ChatFields, options: ThreadStart = {}): Promise<SentTurn> {
    return firstTurn(await this.#start(slug, fields, options));
  }

  /**
   * Sends a message to the thread of this id: starts it, answers its open question if the sender has seen that, or adds the
   * message. Without an id, the message is the next one of its history: it answers the question that this ends with, or is a
   * thread of its own, which ends with its answer.
   */
  async send(slug: string, threadId: string | undefined, message: ThreadMessage): Promise<SentTurn> {
    const turn =
      threadId === undefined
        ? await this.#converse(slug, message)
        : await this.#sendTo(slug, threadId, message);
    return { ...turn, reader: { sender: senderOf(message), said: message.content } };
  }

  /** What happens in a turn, as `followTurn` gives it. Before a question is shown, it is stored who sees it. */
  follow(turn: SentTurn, signal: AbortSignal): AsyncGenerator<ShownEvent, void> {
    return this.#show(turn, followTurn(this.#parts, { ...turn, signal }));
  }

  /** What is recorded of a turn until now: it ends there, also where more is to come. */
  recorded(turn: SentTurn): AsyncGenerator<ShownEvent, void> {
    const parts = { ...this.#parts, feed: recordedFeed(this.#parts) };
    return this.#show(turn, followTurn(parts, { ...turn, signal: new AbortController().signal }));
  }

  async *#show(turn: SentTurn, events: AsyncIterable<TurnEvent>): AsyncGenerator<ShownEvent, void> {
    const { reader, jobId } = turn;
    for await (const event of events) {
      if (event.type !== "question" || !reader) {
        yield event;
        continue;
      }
      const asked = { jobId, caseId: event.caseId, question: event.question };
      yield { ...event, reference: await showQuestion(this.#parts.store, asked, reader, event.after) };
    }
  }

  /**
   * Answers a question that its key names, or shows it again; where it was answered before, gives what came of that.
   */
  async answer(jobId: string, given: GivenAnswer): Promise<SentTurn> {
    const { cases, runner, feed, jobs } = this.#parts;
    const { key, message, by } = given;
    const { caseId, questionId } = partsOfKey(key);
    const item = await cases.ofJob(jobId, caseId);
    const place = { case_id: item.id, question_id: questionId };
    const question = await findQuestion(cases, item.id, questionId);
    const values = question && valuesOf(question, given);
    const after = await feed.last(jobId);
    const reader = { sender: senderOf(given), said: "" };
    const isAsked = item.question !== null && keyOf(item as AskingCase) === key;
    if (values === undefined && isAsked) return { jobId, after, reader, answered: { ...place, again: "" } };
    try {
      const request = { key, values: values ?? {}, message };
      const answered = isAsked && (await answerByKey({ cases, runner }, await jobs.get(jobId), request, by));
      if (answered) {
        const isShort = answered.question !== null && keyOf(answered as AskingCase) === key;
        const more = isShort && { agreed: agreement(answered.question!) };
        return { jobId, after, reader, answered: { ...place, ...more } };
      }
    } catch (error) {
      if (!isServiceError(error) || error.type !== "invalid_parameters") throw error;
      return { jobId, after, reader, answered: { ...place, again: error.detail ?? error.message } };
    }
    const before = await this.#answerOf({ job_id: jobId, ...place, after: 0 });
    const isSame =
      before && values && isDeepStrictEqual(readFlat(question?.fields ?? [], values), before.answer);
    return {
      ...{ jobId, after: 0, reader },
      answered: isSame ? place : { ...place, before: describeAnswer(before) },
    };
  }

  /**
   * The turn that a message has made, by the key that it came with, or the first one of its thread; `undefined` where it has
   * made none.
   */
  async sent(
    jobId: string,
    key: string | undefined,
    who: Pick<ThreadMessage, "by" | "via">,
  ): Promise<SentTurn | undefined> {
    const job = await this.find(jobId);
    if (!job) return undefined;
    const reader = { sender: senderOf(who), said: "" };
    if (key === undefined) {
      return isFirstMessage(job.job_fields) ? { ...firstTurn(job), reader } : undefined;
    }
    const kept = await requestWithKey(this.#parts.store, jobId, key);
    return kept && { ...turnOf(jobId, key, kept), reader };
  }

  /** The messages of a thread up to the one that a turn answers. */
  messagesUntil(jobId: string, caseId: string): Promise<ChatMessage[]> {
    return messagesUntil(this.#parts, jobId, caseId);
  }

  /** The turn of a thread that is under way, from its message on; `undefined` if there is none. */
  async current(jobId: string): Promise<SentTurn | undefined> {
    const job = await this.find(jobId);
    if (!job || isTerminal(job.status)) return undefined;
    const { store } = this.#parts;
    const name = messageEvent(jobId);
    const { count: sent = 0 } = (await store.table("EventName").peek(name)) ?? {};
    const log = currentPart(await store.log("Run").read(jobId, { after: 0 }));
    let turn = isFirstMessage(job.job_fields) ? firstTurn(job) : undefined;
    let caseId: unknown;
    let taken = 0;
    for (const { seq, entry } of log) {
      if (entry.type !== "call") continue;
      if (entry.call === "event" && entry.name === name) {
        const { id } = entry.result as { readonly id: string };
        turn = { jobId, after: seq - 1, at: entry.at, messageId: id };
        // A fork has taken those that its original was sent, too.
        if ((entry.event ?? `${name}/`).startsWith(`${name}/`)) taken++;
      } else if (entry.call === "open_case") caseId = entry.result;
      else if (entry.call === "close" && entry.case_id === caseId) turn = undefined;
    }
    // A message that has not been taken yet is the next one.
    if (!turn && sent > taken) turn = { jobId, after: log.at(-1)?.seq ?? 0 };
    return turn && { ...turn, isWhole: true };
  }

  /** All open questions of a thread that has come to one; where that is no longer open, only that one. */
  async questions(
    jobId: string,
    { caseId, question }: Extract<TurnEvent, { type: "question" }>,
  ): Promise<AskingCase[]> {
    const { jobs, cases } = this.#parts;
    const job = await jobs.find(jobId);
    const asked = { ...(await cases.ofJob(jobId, caseId)), question } as AskingCase;
    const open = job ? await openQuestions(cases, job) : [];
    const isOpen = open.some((item) => keyOf(item) === keyOf(asked));
    return isOpen ? open.map((item) => (keyOf(item) === keyOf(asked) ? asked : item)) : [asked];
  }

  async #sendTo(slug: string, threadId: string, message: ThreadMessage): Promise<SentTurn> {
    const { key, context, filesOf } = message;
    const thread = await this.find(threadId);
    if (thread && thread.agent_name !== slug) {
      throw new ServiceError(
        "invalid_transition",
        `Thread "${threadId}" is one of agent "${thread.agent_name}"`,
        { detail: "Use another thread_id." },
      );
    }
    const keys = key === undefined ? [] : [keyOfStart(threadId, key), key];
    const startKey = keys.find((one) => one === thread?.idempotency_key) ?? keys[0];
    if (!thread || (startKey !== undefined && startKey === thread.idempotency_key)) {
      const fields = { ...toFields(message), once: false };
      const job = await this.#start(slug, fields, {
        ...{ id: threadId, idempotencyKey: startKey, context, filesOf },
      });
      // Another request with the same content may have been the first.
      if (startKey === undefined || job.idempotency_key === startKey) return firstTurn(job);
    }
    return this.#reply(threadId, message);
  }

  /** Takes the next message of a conversation that its client keeps. */
  async #converse(slug: string, message: ThreadMessage): Promise<SentTurn> {
    const { history = [], key } = message;
    const shown = await this.#shownIn(slug, history);
    if (shown) return this.#answerShown(shown, message);
    const { filesOf } = message;
    return this.start(slug, { ...toFields(message), once: true }, { idempotencyKey: key, filesOf });
  }

  /** The question that a history ends with, while its thread can continue with an answer. */
  async #shownIn(slug: string, history: readonly SentChatMessage[]): Promise<ShownQuestion | undefined> {
    const last = history.findLast(({ role }) => role !== "system");
    const reference = last?.role === "assistant" ? readReference(last.content) : undefined;
    const shown = reference === undefined ? undefined : await findShown(this.#parts.store, reference);
    const job = shown && (await this.#parts.jobs.find(shown.job_id));
    if (job?.agent_name !== slug) return undefined;
    return !isTerminal(job.status) || (await this.#answerOf(shown!)) ? shown : undefined;
  }

  /** Answers a question that the sender has seen; where it was answered since, what came of that. */
  async #answerShown(shown: ShownQuestion, message: ThreadMessage): Promise<SentTurn> {
    const { key } = message;
    const { job_id: jobId, case_id, question_id, asked_at } = shown;
    const before = key === undefined ? undefined : await this.#sent(jobId, message, key);
    if (before) return before;
    const item = await this.#parts.cases.ofJob(jobId, case_id);
    const { question } = item;
    if (question && question.id === question_id && question.asked_at === asked_at) {
      const turn = await this.#answer(jobId, item as AskingCase, message);
      if (turn) return turn;
    }
    return this.#answeredBefore(shown, message);
  }

  /** What came of a question that was answered, or ended, before a message could answer it. */
  async #answeredBefore(
    shown: Pick<ShownQuestion, "job_id" | "case_id" | "question_id" | "after">,
    message: ThreadMessage,
  ): Promise<SentTurn> {
    const { job_id: jobId, case_id, question_id, after } = shown;
    const [entry, asked] = [
      await this.#answerOf(shown),
      await findQuestion(this.#parts.cases, case_id, question_id),
    ];
    const isSame = entry && asked && isDeepStrictEqual(readReply(message.content, asked), entry.answer);
    const answered = { case_id, question_id, ...(!isSame && { before: describeAnswer(entry) }) };
    return this.#keep(jobId, message, answered, after);
  }

  /** The answer that was given to a question since it was shown. */
  async #answerOf({
    job_id,
    case_id,
    question_id,
    after,
  }: Pick<ShownQuestion, "job_id" | "case_id" | "question_id" | "after">): Promise<AnswerEntry | undefined> {
    for (const { entry } of await this.#parts.store.log("Run").read(job_id, { after }))
      if (entry.type === "answer" && entry.case_id === case_id && entry.question_id === question_id)
        return entry;
    return undefined;
  }

  /** Answers the open question of a thread with a message whose sender knows which one that is, or asks it again. */
  async reply(
    jobId: string,
    message: ThreadMessage & Required<Pick<ThreadMessage, "seen">>,
  ): Promise<SentTurn> {
    await this.#get(jobId);
    return this.#reply(jobId, { ...message, onlyAnswers: true });
  }

  async #get(jobId: string): Promise<StoredJob> {
    const job = await this.find(jobId);
    if (job) return job;
    throw new ServiceError("job_not_found", `There is no thread "${jobId}"`, { detail: "Start a new one." });
  }

  /** Adds a message to a thread. The same message id again adds nothing. */
  async say(
    jobId: string,
    content: string,
    id?: string,
    { files = [], filesOf = [] }: Pick<ThreadMessage, "files" | "filesOf"> = {},
  ): Promise<SentTurn> {
    await this.#get(jobId);
    const { runner, feed } = this.#parts;
    const after = await feed.last(jobId);
    if (id === undefined) {
      const messageId = randomUUID();
      await runner.say(jobId, { content, files, filesOf, id: messageId });
      return { jobId, after, messageId };
    }
    const once = { key: id, content: saidIn({ content, files }), after };
    await runner.say(jobId, { content, files, filesOf, id, once });
    return (await this.#sent(jobId, { content, files }, id))!;
  }

  async #openQuestion(jobId: string): Promise<AskingCase | undefined> {
    const where = { job_id: jobId, status: "awaiting" };
    const { items } = await this.#parts.cases.list({ where, sort: "-created_at", limit: 1 });
    return items.find((item): item is AskingCase => item.question !== null);
  }

  /** Answers the open question of a thread with a message, if it has one; otherwise adds the message. */
  async #reply(jobId: string, message: ThreadMessage): Promise<SentTurn> {
    const { content, key } = message;
    const before = key === undefined ? undefined : await this.#sent(jobId, message, key);
    if (before) return before;
    const after = await this.#parts.feed.last(jobId);
    const item = await this.#openQuestion(jobId);
    if (!item && message.onlyAnswers) {
      const [what, detail] = message.seen
        ? ["The question is no longer open", "Read the job to see what came of it."]
        : ["The task asks nothing", "Wait until it does."];
      throw new ServiceError("invalid_transition", what, { detail });
    }
    if (!item) return this.say(jobId, content, key, message);
    const why = await this.#whyNoAnswer(jobId, item, message);
    if (why !== undefined) return this.#askAgain(jobId, item, message, why);
    // Where another one was faster, the next question is none that its sender has seen.
    return (
      (await this.#answer(jobId, item, message)) ??
      this.#answeredBefore({ job_id: jobId, case_id: item.id, question_id: item.question.id, after }, message)
    );
  }

  /** Why a message does not answer a question, whatever it says: "" where its sender has not seen that. */
  async #whyNoAnswer(
    jobId: string,
    { id: caseId, question }: AskingCase,
    { content, history = [], key: given, isKeyMade, isRepeated, seen, ...message }: ThreadMessage,
  ): Promise<string | undefined> {
    const key = isKeyMade ? undefined : given;
    if (isRepeated && key === undefined) return "";
    if (seen !== undefined) return seen === keyOf({ id: caseId, question }) ? undefined : "";
    const last = history.findLast(({ role }) => role !== "system");
    if (last) return last.role === "assistant" && last.content.includes(question.question) ? undefined : "";
    const reference = referenceOf({ jobId, caseId, question }, senderOf(message));
    const shown = await findShown(this.#parts.store, reference);
    if (!shown) return "";
    return key === undefined && isSaidAgain(shown, content) ? SAID_BEFORE : undefined;
  }

  /** Answers a question with a message, or asks it again; `undefined` where it is no longer open. */
  async #answer(jobId: string, item: AskingCase, message: ThreadMessage): Promise<SentTurn | undefined> {
    const { content, key, by, files = [] } = message;
    const { question } = item;
    if (files.length > 0) return this.#askAgain(jobId, item, message, NO_FILES);
    const answer = readReply(content, question);
    if (!answer) return this.#askAgain(jobId, item, message, NOT_ANSWERED);
    const after = await this.#parts.feed.last(jobId);
    try {
      const answered = await this.#parts.runner.answer(
        jobId,
        item.id,
        {
          ...{ answer, message: null, question_id: question.id, asked_at: question.asked_at },
          ...(key !== undefined && { once: { key, content: saidIn(message), after } }),
        },
        by,
      );
      if (key !== undefined) return (await this.#sent(jobId, message, key))!;
      const agreed = answered.question?.id === question.id ? agreement(answered.question) : undefined;
      const place = { case_id: item.id, question_id: question.id };
      return { jobId, after, answered: { ...place, ...(agreed !== undefined && { agreed }) } };
    } catch (error) {
      if (!isServiceError(error)) throw error;
      if (error.type === "invalid_parameters")
        return this.#askAgain(jobId, item, message, error.detail ?? error.message);
      if (error.type !== "invalid_transition" || (await this.#isOpen(item))) throw error;
      return undefined;
    }
  }

  async #isOpen({ id, job_id, question: { id: questionId, asked_at } }: AskingCase): Promise<boolean> {
    const { question, status } = await this.#parts.cases.ofJob(job_id, id);
    return status === "awaiting" && question?.id === questionId && question.asked_at === asked_at;
  }

  async #askAgain(
    jobId: string,
    { id, question }: AskingCase,
    message: ThreadMessage,
    again: string,
  ): Promise<SentTurn> {
    const after = await this.#parts.feed.last(jobId);
    return this.#keep(jobId, message, { case_id: id, question_id: question.id, again }, after);
  }

  /** Stores what a message with a key was found to mean, where it has changed nothing. */
  async #keep(
    jobId: string,
    message: ThreadMessage,
    answered: AnsweredQuestion,
    after: number,
  ): Promise<SentTurn> {
    const { key } = message;
    if (key === undefined) return { jobId, after, answered };
    const given = { key, content: saidIn(message), after };
    await this.#parts.store.transaction(async (tx) => {
      if (await keptRequest(tx, jobId, given)) return;
      await keepRequest({ tx, now: this.#parts.clock().toISOString() }, jobId, given, answered);
    });
    return (await this.#sent(jobId, message, key))!;
  }

  /** What a message with this id has done, by its record: whatever has happened since. */
  async #sent(
    jobId: string,
    message: Pick<ThreadMessage, "content" | "files" | "filesOf">,
    id: string,
  ): Promise<SentTurn | undefined> {
    const { store } = this.#parts;
    const kept = await findKeptRequest(store, jobId, { key: id, content: saidIn(message) });
    if (kept) return turnOf(jobId, id, kept);
    // Of version 0.1.0, messages have no other record.
    const event = await store.table("ReceivedEvent").peek(`${messageEvent(jobId)}/${id}`);
    return event ? this.say(jobId, message.content, id, message) : undefined;
  }

  #start(
    slug: string,
    fields: ChatFields,
    { id, startedBy, idempotencyKey, filesOf, context }: ThreadStart & Pick<ThreadMessage, "context">,
  ): Promise<StoredJob> {
    return this.#parts.runner.start(this.agent(slug), {
      job_context: {
        ...(id !== undefined && { job_id: id }),
        ...(startedBy !== undefined && { started_by: startedBy }),
        ...context,
      },
      job_fields: fields,
      ...(idempotencyKey !== undefined && { idempotencyKey }),
      ...(filesOf && { filesOf }),
    });
  }
}

/** The values of an answer; `undefined` where it says nothing. */
function valuesOf(
  { fields }: Question,
  { values, approved, message }: GivenAnswer,
): Readonly<Record<string, unknown>> | undefined {
  const field = approved === undefined ? undefined : approvalField(fields);
  if (!field) return values === undefined ? undefined : isRecord(values) ? values : {};
  const comments = message !== undefined && fields.some(({ name }) => name === "comment");
  return { [field.name]: approved, ...(comments && { comment: message }) };
}

function describeAnswer(entry: AnswerEntry | undefined): string {
  if (!entry) return "The question is no longer open.";
  const how = Object.entries(entry.answer).map(([name, value]) => `${name}: ${JSON.stringify(value)}`);
  const by = entry.by === undefined ? "" : ` by ${entry.by}`;
  return `The question was answered before${by}: ${how.join(", ")}.`;
}
