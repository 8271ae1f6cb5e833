import type * as Sdk from "@a2a-js/sdk";
import type * as Server from "@a2a-js/sdk/server";
import { readValues } from "../../core/agents/read-values.ts";
import type { Caller } from "../../core/audit/caller.ts";
import { isServiceError } from "../../core/base/errors.ts";
import { threadIdOf } from "../../core/conversations/thread-id.ts";
import type { SentTurn } from "../../core/conversations/thread-message.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { Question } from "../../core/models/question.ts";
import { keyOf } from "../../core/models/question-key.ts";
import type { AskingCase } from "../../core/runs/questions/open-questions.ts";
import type { ListQuery } from "../../core/store/store.ts";
import { idOfMessage, questionOf } from "./messages.ts";
import { AgentRequests, callerOf, type GivenPart, signalOf } from "./requests.ts";
import { toTask } from "./task.ts";
import { TurnEvents } from "./turn-events.ts";
import {
  caseOfTask,
  contextOfThread,
  findTurn,
  questionsOf,
  type Turn,
  taskOfCase,
  toTurnJob,
  whenAsked,
  whenBegun,
} from "./turn-task.ts";
import type { Json } from "./updates.ts";

/** Threads of an agent whose turns one list has. */
const MOST_THREADS = 1000;

/**
 * Answers the requests about a chat agent: a context is a thread, and each message a task of it, which ends with the answer.
 * Tasks that are jobs are those of earlier versions, and those that a data part has started with `once`.
 */
export class ThreadRequests extends AgentRequests {
  override sendMessage(
    request: Sdk.SendMessageRequest,
    context: Server.ServerCallContext,
  ): Promise<Sdk.Task> {
    if (isOfJob(request)) return super.sendMessage(request, context);
    return this.guarded(async () => {
      const turn = await this.#take(request, callerOf(context));
      let found: Turn | undefined;
      let question: Question | undefined;
      const patience = this.patience(context);
      const over = new AbortController();
      const leave = (): void => {
        if (found) over.abort();
      };
      patience.addEventListener("abort", leave, { once: true });
      const signal = AbortSignal.any([over.signal, this.parts.closing, signalOf(context)]);
      for await (const event of this.parts.threads.follow(turn, signal)) {
        if (event.type === "failed" && !found)
          throw new this.sdk.errors.UnsupportedOperationError(event.message);
        if (!("caseId" in event)) continue;
        found ??= await this.#opened(event.caseId, request, callerOf(context));
        if (event.type === "question") question = event.question;
        if (patience.aborted || request.configuration?.returnImmediately) break;
      }
      patience.removeEventListener("abort", leave);
      if (!found)
        throw new this.sdk.errors.UnsupportedOperationError("The service is closing: send the message again");
      const now = await this.#read(found.item.id);
      if (question) return this.#toTask(await whenAsked(this.parts, now, question), question);
      const isNow = !request.configuration?.returnImmediately;
      return this.#toTask(isNow ? now : await whenBegun(this.parts, now, turn.answered));
    });
  }

  override async *sendMessageStream(
    request: Sdk.SendMessageRequest,
    context: Server.ServerCallContext,
  ): AsyncGenerator<Sdk.StreamResponse, void, undefined> {
    if (isOfJob(request)) return yield* super.sendMessageStream(request, context);
    const turn = await this.guarded(() => this.#take(request, callerOf(context)));
    let isOpen = false;
    const events = new TurnEvents(this.parts, (caseId) => this.#read(caseId));
    for await (const event of this.parts.threads.follow(turn, signalOf(context))) {
      if (event.type === "failed" && !isOpen)
        throw new this.sdk.errors.UnsupportedOperationError(event.message);
      if (!isOpen && "caseId" in event) {
        isOpen = true;
        const { item } = await this.#opened(event.caseId, request, callerOf(context));
        const begun = await whenBegun(this.parts, await this.#read(item.id), turn.answered);
        yield this.#toEvent({ task: this.#toJson(begun) });
      }
      for await (const one of events.of(event)) yield this.#toEvent(one);
    }
  }

  override async *resubscribe(
    request: Sdk.SubscribeToTaskRequest,
    context: Server.ServerCallContext,
  ): AsyncGenerator<Sdk.StreamResponse, void, undefined> {
    if (caseOfTask(request.id) === undefined) return yield* super.resubscribe(request, context);
    const { item, job } = await this.#find(request.id);
    if (isTerminal(item.status))
      throw new this.sdk.errors.UnsupportedOperationError(`Task "${request.id}" has ended`);
    yield this.#toEvent({ task: this.#toJson({ item, job }) });
    const events = new TurnEvents(this.parts, (caseId) => this.#read(caseId));
    let turn: SentTurn | undefined = { jobId: job.id, after: 0, caseId: item.id, isWhole: true };
    while (turn) {
      let next: SentTurn | undefined;
      for await (const event of this.parts.threads.follow(turn, signalOf(context))) {
        for await (const one of events.of(event)) yield this.#toEvent(one);
        if (event.type !== "question") continue;
        const answered = { case_id: event.caseId, question_id: event.question.id };
        next = { jobId: job.id, after: event.after, answered };
      }
      turn = next;
    }
  }

  override async getTask(request: Sdk.GetTaskRequest): Promise<Sdk.Task> {
    if (caseOfTask(request.id) === undefined) return super.getTask(request);
    return this.#toTask(await this.#find(request.id));
  }

  /** A turn is what its thread does: the thread ends. */
  override cancelTask(request: Sdk.CancelTaskRequest, context: Server.ServerCallContext): Promise<Sdk.Task> {
    if (caseOfTask(request.id) === undefined) return super.cancelTask(request, context);
    return this.guarded(async () => {
      const { job, item } = await this.#find(request.id);
      const { status } = toTurnJob({ job, item });
      if (isTerminal(item.status) && status !== "cancelled")
        throw new this.sdk.errors.TaskNotCancelableError(`Task "${request.id}" is ${item.status}`);
      const stopped = isTerminal(job.status) ? job : await this.parts.runner.stop(job.id, callerOf(context));
      return this.#toTask({ job: stopped, item: (await this.#read(item.id)).item });
    });
  }

  protected override async jobOfTask(taskId: string): Promise<string> {
    return caseOfTask(taskId) === undefined ? super.jobOfTask(taskId) : (await this.#find(taskId)).job.id;
  }

  protected override async listed(contextId: string, query: ListQuery & { readonly sort: string }) {
    const { slug } = this.agent;
    const { items: jobs, total } = await this.parts.jobs.list({
      where: { agent_name: slug, ...(contextId !== "" && { id: threadIdOf(slug, contextId) }) },
      limit: MOST_THREADS,
    });
    const threads = jobs.filter((job) => contextId === "" || contextId === contextOfThread(job));
    if (total > MOST_THREADS)
      throw new this.sdk.errors.RequestMalformedError(`The agent has ${total} threads: name a contextId`);
    const { agent_name: _, mission_id: __, ...where } = query.where ?? {};
    const page = await this.parts.cases.list({
      ...query,
      where: { ...where, job_id: threads.map(({ id }) => id) },
    });
    const tasks = page.items.map((item) =>
      this.#toJson({ item, job: threads.find(({ id }) => id === item.job_id)! }),
    );
    return { ...page, items: await Promise.all(tasks) };
  }

  /** Adds a message to the thread of its context, or answers a question; once, however often it is sent. */
  async #take({ message, configuration }: Sdk.SendMessageRequest, by: Caller): Promise<SentTurn> {
    const { given, parts, push } = this.readMessage(message, configuration);
    const { contextId, messageId, taskId, metadata } = message!;
    const { threads } = this.parts;
    const key = `a2a-${messageId}`;
    const { text, data, files } = read(parts);
    if (taskId) {
      const { job, item } = await this.#find(taskId);
      this.checkContext(taskId, contextId, toTurnJob({ job, item }));
      if (push) await this.setPush({ taskId, jobId: job.id }, push, by);
      const hasEnded = (): Error =>
        new this.sdk.errors.UnsupportedOperationError(
          `Task "${taskId}" has ended: send the message with its context only`,
        );
      if (text === "") {
        const named = typeof metadata?.question === "string" ? metadata.question : undefined;
        const asked = { messageId, named, given, hasEnded };
        const question = await questionOf(this.parts, { ...job, status: item.status }, asked);
        const [open] = questionsOf(item);
        const isOpen = open !== undefined && keyOf(open) === question;
        const values = isOpen ? readValues(parts, open.question.fields) : data;
        return threads.answer(job.id, { key: question, values, by, via: "a2a" });
      }
      const [open] = questionsOf(item);
      const seen = open ? keyOf(open) : "";
      try {
        return await threads.send(job.agent_name, job.id, {
          ...{ content: text, files, key, seen, onlyAnswers: true, by, via: "a2a" },
        });
      } catch (error) {
        if (isServiceError(error) && error.type === "invalid_transition" && isTerminal(item.status))
          throw hasEnded();
        throw error;
      }
    }
    const content = text === "" && typeof data.message === "string" ? data.message : text;
    if (content === "" && files.length === 0)
      throw new this.sdk.errors.RequestMalformedError("A message to a chat agent has a text");
    const { slug } = this.agent;
    const id = contextId ? threadIdOf(slug, contextId) : `a2a-${idOfMessage(slug, messageId)}`;
    return threads.send(slug, id, {
      ...{ content, files, key, by, via: "a2a" },
      context: { started_by: "a2a", ...(contextId && { mission_id: contextId }) },
    });
  }

  /** The turn that a message has opened; what happens to it from now on is pushed. */
  async #opened(caseId: string, { configuration }: Sdk.SendMessageRequest, by: Caller): Promise<Turn> {
    const turn = await this.#read(caseId);
    const push = configuration?.taskPushNotificationConfig;
    if (push?.url) await this.setPush({ taskId: taskOfCase(caseId), jobId: turn.job.id }, push, by);
    return turn;
  }

  async #find(taskId: string): Promise<Turn> {
    const turn = await findTurn(this.parts, { slug: this.agent.slug, taskId });
    if (turn) return turn;
    throw new this.sdk.errors.TaskNotFoundError(`Task "${taskId}" does not exist`);
  }

  async #read(caseId: string): Promise<Turn> {
    const item = await this.parts.cases.summary(caseId);
    return { item, job: await this.parts.jobs.get(item.job_id) };
  }

  #toEvent(event: Json): Sdk.StreamResponse {
    return this.sdk.types.StreamResponse.fromJSON(event);
  }

  #toJson(turn: Turn, question?: Question): Json {
    const asking = questionsOf(turn.item).map((item) =>
      question?.id === item.question.id ? ({ ...item, question } as AskingCase) : item,
    );
    const task = toTask(this.parts, { job: toTurnJob(turn), asking, cases: [] });
    return { ...task, metadata: { ...(task.metadata as Json), thread: turn.job.id } };
  }

  #toTask(turn: Turn, question?: Question): Sdk.Task {
    return this.sdk.types.Task.fromJSON(this.#toJson(turn, question));
  }
}

/** Whether a message is about the task of a job. */
function isOfJob({ message }: Sdk.SendMessageRequest): boolean {
  if (message?.taskId) return caseOfTask(message.taskId) === undefined;
  return (
    message?.parts.some(({ content }) => content?.$case === "data" && content.value?.once === true) ?? false
  );
}

function read(parts: readonly GivenPart[]) {
  const texts = parts.flatMap(({ text }) => (typeof text === "string" ? [text] : []));
  const data: Record<string, unknown> = Object.assign({}, ...parts.map(({ data }) => data));
  return { text: texts.join("\n"), data, files: parts.flatMap(({ file }) => (file ? [file] : [])) };
}
