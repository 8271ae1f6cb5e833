import type * as Sdk from "@a2a-js/sdk";
import type * as Errors from "@a2a-js/sdk/errors";
import type * as Server from "@a2a-js/sdk/server";
import { fieldsOf } from "../../core/agents/fields.ts";
import { type GivenFile, readJobFields, readValues } from "../../core/agents/read-values.ts";
import type { HostedAgent } from "../../core/agents/registry.ts";
import type { Caller } from "../../core/audit/caller.ts";
import { isServiceError, ServiceError, textOf } from "../../core/base/errors.ts";
import { toGivenFile } from "../../core/conversations/file-parts.ts";
import { behindCursor, toCursor } from "../../core/http/cursor.ts";
import {
  findFirst,
  firstSettled,
  keepFirst,
  type ShownJob,
  shownNow,
  startOf,
  startOfNew,
} from "../../core/http/first-response.ts";
import { tellStory } from "../../core/http/job-story.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { keyOf } from "../../core/models/question-key.ts";
import { answerByKey, openQuestions } from "../../core/runs/questions/open-questions.ts";
import type { ListQuery, Page } from "../../core/store/store.ts";
import { followTask } from "./follow-task.ts";
import { idOfMessage, questionOf } from "./messages.ts";
import type { A2aParts } from "./parts.ts";
import { assertUsable, type PushConfig, type TaskPlace } from "./push.ts";
import { contextOf } from "./states.ts";
import { toTask } from "./task.ts";
import { toTaskEvents } from "./task-events.ts";
import type { Json } from "./updates.ts";

const MOST_LISTED = 100;

/** A part of a message, in the protocol's JSON. */
interface SentPart {
  readonly text?: string;
  readonly data?: unknown;
  /** The content of a file, in base64. */
  readonly raw?: string;
  readonly url?: string;
  readonly mediaType?: string;
  readonly filename?: string;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** The same as agents take it. */
export interface GivenPart {
  readonly text?: string | undefined;
  readonly data?: unknown;
  readonly file?: GivenFile;
  readonly field?: string;
}

/** The SDK, which is loaded with the plugin. */
export interface A2aSdk {
  readonly types: typeof Sdk;
  readonly errors: typeof Errors;
  readonly server: typeof Server;
}

/**
 * Answers the requests about one agent. It keeps no state: all of it is in the records of the jobs, so any instance
 * answers any request.
 */
export class AgentRequests implements Server.A2ARequestHandler {
  protected readonly sdk: A2aSdk;
  protected readonly parts: A2aParts;
  protected readonly agent: HostedAgent;
  readonly #card: () => Promise<Sdk.AgentCard>;

  constructor(sdk: A2aSdk, parts: A2aParts, agent: HostedAgent, card: () => Promise<Sdk.AgentCard>) {
    this.sdk = sdk;
    this.parts = parts;
    this.agent = agent;
    this.#card = card;
  }

  getAgentCard(): Promise<Sdk.AgentCard> {
    return this.#card();
  }

  /** The card says that there is none. */
  async getAuthenticatedExtendedAgentCard(): Promise<Sdk.AgentCard> {
    throw new this.sdk.errors.UnsupportedOperationError(
      "There is no extended card: the agent's card has everything",
    );
  }

  sendMessage(request: Sdk.SendMessageRequest, context: Server.ServerCallContext): Promise<Sdk.Task> {
    return this.guarded(async () => {
      const job = await this.#take(request, callerOf(context));
      if (!request.configuration?.returnImmediately) {
        const asked = { job, key: keyOfMessage(request) };
        return this.#toTask(await firstSettled(this.parts, asked, { signal: this.patience(context) }));
      }
      const asked = { job, key: keyOfMessage(request, "now") };
      return this.#toTask((await findFirst(this.parts, asked)) ?? (await keepFirst(this.parts, asked)));
    });
  }

  async *sendMessageStream(
    request: Sdk.SendMessageRequest,
    context: Server.ServerCallContext,
  ): AsyncGenerator<Sdk.StreamResponse, void, undefined> {
    const key = keyOfMessage(request);
    const { job, start } = await this.guarded(async () => {
      const taskId = request.message?.taskId;
      const known = taskId ? await startOf(this.parts, { job: await this.#find(taskId), key }) : undefined;
      const taken = await this.#take(request, callerOf(context));
      return { job: taken, start: known ?? startOfNew(taken) };
    });
    const story = tellStory(this.parts, { job, key }, { start, signal: signalOf(context) });
    yield* this.#toEvents(toTaskEvents(this.parts, story));
  }

  async *resubscribe(
    { id }: Sdk.SubscribeToTaskRequest,
    context: Server.ServerCallContext,
  ): AsyncGenerator<Sdk.StreamResponse, void, undefined> {
    const { UnsupportedOperationError } = this.sdk.errors;
    const job = await this.#find(id);
    if (isTerminal(job.status)) throw new UnsupportedOperationError(`Task "${id}" has ended`);
    yield* this.#toEvents(followTask(this.parts, job, signalOf(context)));
  }

  async getTask({ id }: Sdk.GetTaskRequest): Promise<Sdk.Task> {
    return this.#toTask(await shownNow(this.parts, await this.#find(id)));
  }

  cancelTask({ id }: Sdk.CancelTaskRequest, context: Server.ServerCallContext): Promise<Sdk.Task> {
    return this.guarded(async () => {
      const { TaskNotCancelableError } = this.sdk.errors;
      const job = await this.#find(id);
      // A repeated request finds what it asked for.
      if (isTerminal(job.status) && job.status !== "cancelled")
        throw new TaskNotCancelableError(`Task "${id}" is ${job.status}`);
      const stopped = await this.parts.runner.stop(id, callerOf(context));
      return this.#toTask(await shownNow(this.parts, stopped));
    });
  }

  async listTasks(request: Sdk.ListTasksRequest): Promise<Sdk.ListTasksResponse> {
    const { types, errors } = this.sdk;
    const { pageSize = 50, statusTimestampAfter, historyLength = 0, includeArtifacts } = request;
    const check = (fits: boolean, rule: string) => {
      if (!fits) throw new errors.RequestMalformedError(rule);
    };
    check(pageSize >= 1 && pageSize <= MOST_LISTED, `pageSize must be from 1 to ${MOST_LISTED}`);
    check(historyLength >= 0, "historyLength must not be negative");
    check(request.status >= 0, "status is no state of a task");
    const after = statusTimestampAfter ? Date.parse(statusTimestampAfter) : 0;
    check(!Number.isNaN(after), "statusTimestampAfter must be a time in ISO 8601");
    const where = {
      ...(request.status && { status: statusesOf(types.taskStateToJSON(request.status)) }),
      ...(after > 0 && { updated_at: { gte: after } }),
    };
    const { begun, isMoved, cursor } = readToken(request.pageToken, this.parts.clock().getTime());
    const newest = { where, sort: "-updated_at", limit: pageSize };
    // A task that changes while pages are read moves before their cursor: those follow the last page, by id.
    const since = { updated_at: { gte: Math.max(begun, after) }, created_at: { lt: begun } };
    const moved = { where: { ...where, ...since }, sort: "id", limit: pageSize };
    const read = (query: typeof newest, behind?: string) =>
      this.guarded(() => this.listed(request.contextId, behindCursor(query, behind)));
    const countOf = async (query: typeof newest) => (await read({ ...query, limit: 0 })).total;
    const query = isMoved ? moved : newest;
    const { items, next, ...page } = await read(query, cursor);
    const totalSize = isMoved ? await countOf(newest) : page.total;
    const hasMoved = !next && !isMoved && cursor !== undefined && (await countOf(moved)) > 0;
    const tasks = items.map((item) => {
      const task = types.Task.fromJSON(item);
      return includeArtifacts ? task : { ...task, artifacts: [] };
    });
    const nextPageToken = next
      ? toToken({ begun, isMoved, cursor: toCursor(query.sort, next) })
      : hasMoved
        ? toToken({ begun, isMoved: true })
        : "";
    return { tasks, nextPageToken, pageSize, totalSize };
  }

  /** A page of tasks, in the protocol's JSON. */
  protected async listed(contextId: string, query: ListQuery): Promise<Page<Json>> {
    const of = { agent_name: this.agent.slug, ...(contextId !== "" && { mission_id: contextId }) };
    const page = await this.parts.jobs.list({ ...query, where: { ...query.where, ...of } });
    const items: Json[] = [];
    for (const job of page.items) items.push(toTask(this.parts, await shownNow(this.parts, job)));
    return { ...page, items };
  }

  createTaskPushNotificationConfig(
    config: Sdk.TaskPushNotificationConfig,
    context: Server.ServerCallContext,
  ): Promise<Sdk.TaskPushNotificationConfig> {
    return this.guarded(async () => {
      const jobId = await this.jobOfTask(config.taskId);
      const place = { taskId: config.taskId, jobId };
      return this.#toConfig(await this.setPush(place, config, callerOf(context)));
    });
  }

  async getTaskPushNotificationConfig(
    request: Sdk.GetTaskPushNotificationConfigRequest,
  ): Promise<Sdk.TaskPushNotificationConfig> {
    await this.jobOfTask(request.taskId);
    const config = await this.parts.push.find(request.taskId, request.id);
    if (config) return this.#toConfig(config);
    throw new this.sdk.errors.TaskNotFoundError(`Push notification config "${request.id}" does not exist`);
  }

  async listTaskPushNotificationConfigs(
    request: Sdk.ListTaskPushNotificationConfigsRequest,
  ): Promise<Sdk.ListTaskPushNotificationConfigsResponse> {
    const jobId = await this.jobOfTask(request.taskId);
    const configs = await this.parts.push.list({ taskId: request.taskId, jobId });
    return { configs: configs.map((config) => this.#toConfig(config)), nextPageToken: "" };
  }

  async deleteTaskPushNotificationConfig(
    request: Sdk.DeleteTaskPushNotificationConfigRequest,
  ): Promise<void> {
    await this.jobOfTask(request.taskId);
    await this.parts.push.remove(request.taskId, request.id);
  }

  /** Stores where changes are sent; without an id it has that of its URL, so that a repeated request adds no other. */
  protected setPush(
    { taskId, jobId }: TaskPlace,
    { id, url, token, authentication }: Sdk.TaskPushNotificationConfig,
    by: Caller,
  ): Promise<PushConfig> {
    return this.parts.push.set({ id: id || url, taskId, url, token, authentication }, jobId, by);
  }

  /** Without its secrets, which only its receiver has to know. */
  #toConfig({ authentication, ...config }: PushConfig): Sdk.TaskPushNotificationConfig {
    const shown = authentication && { ...authentication, credentials: "" };
    return { ...config, token: "", authentication: shown, tenant: "" };
  }

  /** Starts a job, or answers a question of one; both once, however often the message is sent. */
  async #take({ message, configuration }: Sdk.SendMessageRequest, by: Caller): Promise<StoredJob> {
    const { given, parts, push } = this.readMessage(message, configuration);
    // What happens from now on is sent: the answer below, too.
    if (message!.taskId) {
      const job = await this.#find(message!.taskId);
      this.checkContext(job.id, message!.contextId, job);
      if (push) await this.setPush({ taskId: job.id, jobId: job.id }, push, by);
      return this.#answer(job, { message: message!, given, parts, by });
    }
    const job = await this.#start(message!, parts);
    if (push) await this.setPush({ taskId: job.id, jobId: job.id }, push, by);
    return job;
  }

  /** The parts of a message, and where what becomes of it is sent; refuses one that cannot be taken. */
  protected readMessage(
    message: Sdk.Message | undefined,
    configuration: Sdk.SendMessageRequest["configuration"],
  ): {
    /** As they came. */
    readonly given: readonly object[];
    readonly parts: readonly GivenPart[];
    readonly push: Sdk.TaskPushNotificationConfig | undefined;
  } {
    const { RequestMalformedError } = this.sdk.errors;
    if (!message?.messageId) throw new RequestMalformedError("The message has no messageId");
    const json = this.sdk.types.Message.toJSON(message) as { parts?: readonly SentPart[] };
    const given = json.parts ?? [];
    if (given.length === 0) throw new RequestMalformedError("The message has no parts");
    if (message.role !== this.sdk.types.Role.ROLE_USER)
      throw new RequestMalformedError("The role of the message must be ROLE_USER");
    const parts = this.#readParts(given, message.taskId !== "");
    const push = configuration?.taskPushNotificationConfig;
    if (push?.url) assertUsable(push);
    return { given, parts, push: push?.url ? push : undefined };
  }

  /**
   * The parts of a message, with their files as fields take them. Refuses files where the agent takes none: a job that
   * starts without the picture that it is about would have a wrong result.
   */
  #readParts(parts: readonly SentPart[], isAnswer: boolean): GivenPart[] {
    const { chats, methods } = this.agent.definition;
    const takesFiles = chats || isAnswer || fieldsOf(methods.job_start).hasFiles;
    return parts.map((part, at) => {
      const { text, data, raw, url, mediaType: type, filename: name, metadata } = part;
      if (text !== undefined || data !== undefined) return { text, data };
      if (!takesFiles || (raw === undefined && url === undefined)) {
        throw new this.sdk.errors.ContentTypeNotSupportedError(
          `Part ${at + 1} of the message is ${type || name || "a file"}: agent "${this.agent.slug}" accepts text and data only`,
        );
      }
      const field = typeof metadata?.field === "string" ? { field: metadata.field } : {};
      try {
        return { file: toGivenFile({ name, type, data: raw, url }), ...field };
      } catch (error) {
        throw new this.sdk.errors.ContentTypeNotSupportedError(`Part ${at + 1}: ${(error as Error).message}`);
      }
    });
  }

  #start({ messageId, contextId }: Sdk.Message, parts: readonly GivenPart[]): Promise<StoredJob> {
    const { slug, definition } = this.agent;
    return this.parts.runner.start(slug, {
      job_context: { started_by: "a2a", ...(contextId && { mission_id: contextId }) },
      job_fields: readJobFields(definition, parts),
      idempotencyKey: `a2a-${idOfMessage(slug, messageId)}`,
    });
  }

  /** Refuses a message that names a task and another context than that of the task. */
  protected checkContext(taskId: string, contextId: string, task: StoredJob): void {
    if (contextId === "" || contextId === contextOf(task)) return;
    throw new this.sdk.errors.RequestMalformedError(
      `Task "${taskId}" is not of the context "${contextId}": omit contextId, or send that of the task`,
    );
  }

  /** The id of the job of a task of this agent. */
  protected async jobOfTask(taskId: string): Promise<string> {
    return (await this.#find(taskId)).id;
  }

  async #answer(
    job: StoredJob,
    {
      message,
      given,
      parts,
      by,
    }: { message: Sdk.Message; given: readonly object[]; parts: readonly GivenPart[]; by: Caller },
  ): Promise<StoredJob> {
    const { cases } = this.parts;
    const named = message.metadata?.question;
    const question = await questionOf(this.parts, job, {
      messageId: message.messageId,
      named: typeof named === "string" ? named : undefined,
      given,
      hasEnded: () =>
        new this.sdk.errors.UnsupportedOperationError(
          `Task "${job.id}" is ${job.status}: it accepts no further messages. Start another one in its context`,
        ),
    });
    const asking = (await openQuestions(cases, job)).find((item) => keyOf(item) === question);
    // It was answered: by this message before, or by somebody else.
    if (!asking) return job;
    const values = readValues(parts, asking.question.fields);
    await answerByKey(this.parts, job, { key: question, values }, by);
    return this.#find(job.id);
  }

  /** Fires when the client is gone, or the service has waited long enough for it. */
  protected patience(context: Server.ServerCallContext): AbortSignal {
    const { wait, closing } = this.parts;
    const signals = [closing, signalOf(context), wait === undefined ? undefined : AbortSignal.timeout(wait)];
    return AbortSignal.any(signals.filter((signal) => signal !== undefined));
  }

  async *#toEvents(events: AsyncIterable<Json>): AsyncGenerator<Sdk.StreamResponse, void, undefined> {
    const { StreamResponse } = this.sdk.types;
    for await (const event of events) yield StreamResponse.fromJSON(event);
  }

  #toTask(shown: ShownJob): Sdk.Task {
    return this.sdk.types.Task.fromJSON(toTask(this.parts, shown));
  }

  /** A job of this agent. */
  async #find(id: string): Promise<StoredJob> {
    const job = await this.parts.jobs.find(id);
    if (job?.agent_name === this.agent.slug) return job;
    throw new this.sdk.errors.TaskNotFoundError(`Task "${id}" does not exist`);
  }

  protected async guarded<T>(work: () => Promise<T>): Promise<T> {
    const { A2AError, RequestMalformedError } = this.sdk.errors;
    try {
      return await work();
    } catch (error) {
      if (error instanceof A2AError) throw error;
      if (error instanceof TypeError) throw new RequestMalformedError(error.message);
      if (!isServiceError(error)) {
        this.parts.log.error("a request of an A2A client failed", { error });
        throw new ServiceError("internal_error", "Something went wrong in the service");
      }
      if (error.status >= 500) throw error;
      throw new RequestMalformedError(textOf(error));
    }
  }
}

export function callerOf(context: Server.ServerCallContext): Caller {
  return context.state.get("caller") as Caller;
}

/** Fires when the client is gone. */
export function signalOf(context: Server.ServerCallContext): AbortSignal {
  return context.state.get("signal") as AbortSignal;
}

/** Names a message among the requests to its job; one that is to wait is another request than one that is not. */
function keyOfMessage({ message }: Sdk.SendMessageRequest, how = ""): string {
  return `a2a ${how} ${message!.messageId}`;
}

function statusesOf(state: string): string[] {
  const statuses: Readonly<Record<string, string[]>> = {
    TASK_STATE_SUBMITTED: ["stopped"],
    TASK_STATE_WORKING: ["in_progress", "cancelling"],
    TASK_STATE_INPUT_REQUIRED: ["awaiting"],
    TASK_STATE_COMPLETED: ["completed"],
    TASK_STATE_FAILED: ["failed"],
    TASK_STATE_CANCELED: ["cancelled"],
  };
  return statuses[state] ?? ["none"];
}

/** Where a list continues. */
interface Place {
  /** When its first page was read, milliseconds. */
  readonly begun: number;
  /** Whether it continues with the tasks that have changed since. */
  readonly isMoved: boolean;
  readonly cursor?: string | undefined;
}

const toToken = ({ begun, isMoved, cursor = "" }: Place) => `${begun}${isMoved ? "m" : ""}.${cursor}`;

/** The place that a token names; one of an earlier version is a cursor alone. */
function readToken(token: string, now: number): Place {
  const [, begun = now, isMoved, cursor] = /^(?:(\d{1,15})(m?)\.)?(.*)$/s.exec(token)!;
  return { begun: Number(begun), isMoved: isMoved === "m", cursor: cursor || undefined };
}
