import { createHash } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type * as Sdk from "@a2a-js/sdk";
import type * as Server from "@a2a-js/sdk/server";
import * as v from "valibot";
import type { Caller } from "../../core/audit/caller.ts";
import { ServiceError } from "../../core/base/errors.ts";
import { readSwitch } from "../../core/base/switch.ts";
import { baseUrl } from "../../core/http/base-url.ts";
import { jsonRpcErrors } from "../../core/http/json-rpc-errors.ts";
import type { LiveStreams } from "../../core/http/live-streams.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../core/http/route.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import { routesOf } from "../../core/http/topic-routes.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import { shownAgents } from "../../core/service/protocol-parts.ts";
import { type CardKeys, signCard, toCard } from "./card.ts";
import { type A2aParts, partsFor } from "./parts.ts";
import { type A2aSdk, AgentRequests } from "./requests.ts";
import { errorInfo, REST_ERRORS } from "./rest-errors.ts";
import { ThreadRequests } from "./thread-requests.ts";

const tag = "Agent2Agent";
const rpcRoute = routesOf({ auth: "key", tag, errors: jsonRpcErrors((error) => [errorInfo(error)]) });
const keyRoute = routesOf({ auth: "key", tag, errors: REST_ERRORS });
/** Seconds that clients may keep a card. */
const CARD_AGE = 300;
/** Milliseconds after which a response that is waited for begins: clients and proxies give up on silent ones. */
const SILENT = 5000;
const SlugSchema = v.object({ slug: v.string() });
const TargetSchema = v.object({ slug: v.string(), target: v.string() });
const ActionSchema = v.object({ slug: v.string(), action: v.string() });
const TaskSchema = v.object({ slug: v.string(), id: v.string() });
const ConfigSchema = v.object({ slug: v.string(), id: v.string(), config: v.string() });
const RpcSchema = v.looseObject({
  jsonrpc: v.literal("2.0"),
  id: v.optional(v.nullable(v.union([v.string(), v.number()]))),
  method: v.string(),
  params: v.optional(v.unknown()),
});
/** Members that this version of the protocol does not know must be ignored. */
const AnyQuerySchema = v.looseObject({});
const AnyBodySchema = v.optional(JsonMapSchema, {});
const QuerySchema = v.looseObject({
  contextId: v.optional(v.string()),
  status: v.optional(v.string()),
  pageSize: v.optional(v.string()),
  pageToken: v.optional(v.string()),
  historyLength: v.optional(v.string()),
  statusTimestampAfter: v.optional(v.string()),
  includeArtifacts: v.optional(v.string()),
});
const answers = (description: string) => ({ 200: { description, schema: JsonMapSchema } });

interface Shared {
  readonly prefix: string;
  /** Of all routes of the service. */
  readonly apiPrefix: string;
  readonly keys: CardKeys;
  readonly state: ServiceState;
  readonly streams: LiveStreams;
  readonly publicCards: boolean;
  /** Slug of the agent whose card is at the root of the service. */
  readonly main: string | undefined;
}

/** What a handler of a route gets. */
interface Input {
  readonly params: { readonly slug: string };
  readonly event: HttpEvent;
  readonly caller: Caller;
}

/** The routes of all agents: their cards, JSON-RPC and REST. */
export function a2aRoutes(sdk: A2aSdk, parts: A2aParts, shared: Shared): RouteDefinition[] {
  const { prefix, apiPrefix, keys, state, streams } = shared;
  const { server, types, errors } = sdk;
  const auth = shared.publicCards ? "none" : "key";

  const urlOf = (path: string, event: HttpEvent): string =>
    new URL(`${prefix}${path}`, state.publicUrl ?? event.url).href;
  const bareCard = (slug: string, event: HttpEvent, caller: Caller): Sdk.AgentCard =>
    toCard(types, agentOf(partsFor(parts, caller), slug), urlOf(`/${slug}`, event));
  const sign = async (slug: string, event: HttpEvent, card: Sdk.AgentCard): Promise<Sdk.AgentCard> =>
    signCard(types, card, await keys.present(), urlOf(`/${slug}/.well-known/jwks.json`, event));
  const showCard = async (slug: string, { event, caller }: Omit<Input, "params">): Promise<Response> => {
    const card = bareCard(slug, event, caller);
    // Each signature is another one: the card is what it signs.
    const { jwk } = await keys.present();
    const content = JSON.stringify([jwk.kid, types.AgentCard.toJSON(card)]);
    const etag = `"${createHash("sha256").update(content).digest("base64url")}"`;
    const scope = shared.publicCards ? "public" : "private";
    const headers = { etag, "cache-control": `${scope}, max-age=${CARD_AGE}` };
    const known = event.req.headers.get("if-none-match")?.split(",") ?? [];
    if (known.some((one) => one.trim().replace(/^W\//, "") === etag || one.trim() === "*"))
      return new Response(null, { status: 304, headers });
    const signed = types.AgentCard.toJSON(await sign(slug, event, card));
    return new Response(JSON.stringify(signed), {
      headers: { ...headers, "content-type": "application/json" },
    });
  };
  const requestsOf = ({ params: { slug }, event, caller }: Input): AgentRequests => {
    const seen = partsFor(parts, caller, baseUrl(state, apiPrefix, event));
    const card = () => sign(slug, event, bareCard(slug, event, caller));
    const agent = agentOf(seen, slug);
    const Requests = agent.definition.chats ? ThreadRequests : AgentRequests;
    return new Requests(sdk, seen, agent, card);
  };
  const contextOf = (event: HttpEvent, caller: Caller, signal?: AbortSignal): Server.ServerCallContext => {
    const requestedVersion =
      event.req.headers.get("a2a-version") || event.url.searchParams.get("A2A-Version") || "0.3";
    // Numbers of patches do not count.
    if (!/^1\.0(\.\d+)?$/.test(requestedVersion)) {
      const { VersionNotSupportedError } = errors;
      throw new VersionNotSupportedError(
        `Version ${requestedVersion} is not supported; send the header A2A-Version: 1.0`,
      );
    }
    const signals = [event.req.signal, signal].filter((one) => one !== undefined);
    const state = new Map<string, unknown>([
      ["caller", caller],
      ["signal", AbortSignal.any(signals)],
    ]);
    return new server.ServerCallContext({ requestedVersion, state });
  };
  /** Sends what comes as events. What fails before the first one is an answer, not a stream. */
  const stream = async (
    given: AsyncGenerator<unknown, void, undefined>,
    { caller, controller }: { readonly caller: Caller; readonly controller: AbortController },
  ): Promise<Response> => {
    let next: IteratorResult<unknown, void> | undefined = await given.next();
    return streams.open(
      async (signal) => {
        // At the first event, as the signal is the same for all.
        if (next) signal.addEventListener("abort", () => controller.abort(), { once: true });
        const { value, done } = next ?? (await given.next());
        next = undefined;
        return done ? undefined : types.formatSSEEvent(value);
      },
      { caller },
    );
  };
  /** What comes soon is sent as it is. A response that takes longer begins, and is kept alive, until it comes. */
  const patiently = async (work: Promise<unknown>, caller: Caller): Promise<unknown> => {
    const timer = new AbortController();
    const late = setTimeout(SILENT, undefined, { signal: timer.signal }).then(
      () => LATE,
      () => LATE,
    );
    const first = await Promise.race([work, late]).finally(() => timer.abort());
    if (first !== LATE) return first;
    let isSent = false;
    const source = async (): Promise<string | undefined> => {
      if (isSent) return undefined;
      const text = JSON.stringify(await work);
      isSent = true;
      return text;
    };
    // Spaces before a value are JSON, too.
    const response = streams.open(source, { caller, heartbeat: " " });
    response.headers.set("content-type", "application/json");
    return response;
  };
  /** Errors of REST have the protocol's form. */
  const rest = async (
    { event, caller, ...input }: Input,
    work: (requests: AgentRequests, context: Server.ServerCallContext) => Promise<unknown>,
    signal?: AbortSignal,
  ): Promise<unknown> => {
    try {
      const context = contextOf(event, caller, signal);
      return await work(requestsOf({ event, caller, ...input }), context);
    } catch (error) {
      if (!(error instanceof errors.A2AError)) throw error;
      const status = errors.restStatusFor(error);
      const headers = { "content-type": "application/json" };
      return new Response(JSON.stringify(errors.toRestErrorBody(error, status)), { status, headers });
    }
  };
  const switchOf = (name: string, text = "false"): boolean => {
    const is = readSwitch(text);
    if (is === undefined) throw new errors.RequestMalformedError(`${name} must be true or false`);
    return is;
  };
  const restStream = (
    input: Input,
    events: (
      requests: AgentRequests,
      context: Server.ServerCallContext,
    ) => AsyncGenerator<Sdk.StreamResponse, void, undefined>,
  ): Promise<unknown> => {
    const controller = new AbortController();
    const { caller } = input;
    return rest(
      input,
      (requests, context) => stream(toJson(types, events(requests, context)), { caller, controller }),
      controller.signal,
    );
  };
  const subscribe = (input: Input, id: string): Promise<unknown> =>
    restStream(input, (requests, context) => requests.resubscribe({ tenant: "", id }, context));
  const cardRoute = {
    method: "GET",
    auth,
    needs: auth === "none" ? "nothing" : "view",
    narrows: true,
    tag,
    errors: REST_ERRORS,
    query: AnyQuerySchema,
  } as const;
  const { main } = shared;

  return [
    ...(main === undefined
      ? []
      : [
          defineRoute({
            ...cardRoute,
            path: "/.well-known/agent-card.json",
            summary: "The card of the agent that the service is known for",
            description: "Where clients look that know the host only.",
            responses: answers("The card"),
            handler: (input) => showCard(main, input),
          }),
        ]),
    defineRoute({
      ...cardRoute,
      path: `${prefix}/{slug}/.well-known/agent-card.json`,
      summary: "The card of an agent",
      description:
        "Signed with a key of `jwks.json` beside it. Has an `ETag`, and may be kept for five minutes.",
      params: SlugSchema,
      responses: answers("The card"),
      handler: ({ params, ...input }) => showCard(params.slug, input),
    }),
    defineRoute({
      ...cardRoute,
      path: `${prefix}/{slug}/.well-known/jwks.json`,
      summary: "The key that verifies cards",
      description: "A JSON Web Key Set with the present key and former ones.",
      params: SlugSchema,
      responses: answers("A JSON Web Key Set"),
      handler: async ({ params, caller }) => {
        agentOf(partsFor(parts, caller), params.slug);
        return { keys: await keys.verifying() };
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/extendedAgentCard`,
      needs: "start",
      narrows: true,
      summary: "The extended card of an agent",
      description: "There is none: the card has everything, and says so.",
      params: SlugSchema,
      query: AnyQuerySchema,
      responses: answers("The card"),
      handler: (input) => rest(input, (requests) => requests.getAuthenticatedExtendedAgentCard()),
    }),
    rpcRoute({
      method: "POST",
      path: `${prefix}/{slug}`,
      needs: "start",
      narrows: true,
      summary: "Agent2Agent over JSON-RPC",
      description:
        "One request of the Agent2Agent protocol, version 1.0. Streaming methods are answered with server-sent events.",
      params: SlugSchema,
      query: AnyQuerySchema,
      body: RpcSchema,
      responses: answers("The answer"),
      handler: async ({ params, body, event, caller }) => {
        const controller = new AbortController();
        try {
          const context = contextOf(event, caller, controller.signal);
          const handler = new server.JsonRpcTransportHandler(requestsOf({ params, event, caller }));
          const answer = await patiently(handler.handle(body, context), caller);
          if (!isEvents(answer)) return answer;
          return await stream(answer, { caller, controller });
        } catch (error) {
          if (!(error instanceof errors.A2AError)) throw error;
          return { jsonrpc: "2.0", id: body.id ?? null, error: errors.toJsonRpcError(error) };
        }
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/{slug}/{action}`,
      needs: "start",
      narrows: true,
      summary: "Send a message",
      description: "`message:send` answers with the task, `message:stream` with server-sent events.",
      params: ActionSchema,
      query: AnyQuerySchema,
      body: JsonMapSchema,
      responses: answers("The task"),
      handler: ({ params, body, event, caller }) => {
        const { action } = params;
        if (action !== "message:send" && action !== "message:stream") throw notFound(action);
        const request = types.SendMessageRequest.fromJSON(body);
        const input = { params, event, caller };
        if (action === "message:stream")
          return restStream(input, (requests, context) => requests.sendMessageStream(request, context));
        return rest(input, (requests, context) => {
          const task = requests.sendMessage(request, context);
          return patiently(
            task.then((one) => ({ task: types.Task.toJSON(one) })),
            caller,
          );
        });
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks`,
      needs: "start",
      narrows: true,
      summary: "List the tasks of an agent",
      description:
        "Newest first, in pages with a cursor, filtered by context, status and time of the last change.",
      params: SlugSchema,
      query: QuerySchema,
      responses: answers("A page of tasks"),
      handler: ({ query, ...input }) =>
        rest(input, async (requests) => {
          const { pageSize, historyLength, includeArtifacts, ...others } = query;
          const request = types.ListTasksRequest.fromJSON({
            ...others,
            ...(pageSize !== undefined && { pageSize: Number(pageSize) }),
            ...(historyLength !== undefined && { historyLength: Number(historyLength) }),
            includeArtifacts: switchOf("includeArtifacts", includeArtifacts),
          });
          const { tasks, ...page } = await requests.listTasks(request);
          const json = types.ListTasksResponse.toJSON({ tasks, ...page }) as { tasks?: object[] };
          // Required by the protocol, and omitted by its library where they are empty.
          return {
            ...{ tasks: [], nextPageToken: "", totalSize: 0 },
            ...json,
            pageSize: page.pageSize,
          };
        }),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks/{target}`,
      needs: "start",
      narrows: true,
      summary: "Show or follow a task",
      description: "`{id}` is the task; `{id}:subscribe` follows it with server-sent events.",
      params: TargetSchema,
      query: v.looseObject({ historyLength: v.optional(v.string()) }),
      responses: answers("The task"),
      handler: (input) => {
        const [id, verb] = splitTarget(input.params.target);
        if (verb === "subscribe") return subscribe(input, id);
        if (verb !== undefined) throw notFound(input.params.target);
        return rest(input, async (requests) => types.Task.toJSON(await requests.getTask({ tenant: "", id })));
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/{slug}/tasks/{target}`,
      needs: "start",
      narrows: true,
      summary: "Cancel or follow a task",
      description:
        "`{id}:cancel` asks the task to stop; `{id}:subscribe` follows it with server-sent events.",
      params: TargetSchema,
      query: AnyQuerySchema,
      body: AnyBodySchema,
      responses: answers("The task"),
      handler: (input) => {
        const [id, verb] = splitTarget(input.params.target);
        if (verb === "subscribe") return subscribe(input, id);
        if (verb !== "cancel") throw notFound(input.params.target);
        const request = { tenant: "", id, metadata: undefined };
        return rest(input, async (requests, context) =>
          types.Task.toJSON(await requests.cancelTask(request, context)),
        );
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs`,
      needs: "start",
      narrows: true,
      summary: "Have changes of a task sent to a URL",
      description: "A push notification for each change from now on. The same URL again adds no other.",
      params: TaskSchema,
      query: AnyQuerySchema,
      body: JsonMapSchema,
      responses: answers("The config"),
      handler: ({ body, ...input }) =>
        rest(input, async (requests, context) => {
          const config = types.TaskPushNotificationConfig.fromJSON({ ...body, taskId: input.params.id });
          const stored = await requests.createTaskPushNotificationConfig(config, context);
          return types.TaskPushNotificationConfig.toJSON(stored);
        }),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs`,
      needs: "start",
      narrows: true,
      summary: "List where changes of a task are sent",
      description: "The receivers of the task's push notifications, without their secrets.",
      params: TaskSchema,
      query: v.looseObject({ pageSize: v.optional(v.string()), pageToken: v.optional(v.string()) }),
      responses: answers("The configs"),
      handler: (input) =>
        rest(input, async (requests) => {
          const request = { tenant: "", taskId: input.params.id, pageSize: 0, pageToken: "" };
          const listed = await requests.listTaskPushNotificationConfigs(request);
          return types.ListTaskPushNotificationConfigsResponse.toJSON(listed);
        }),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs/{config}`,
      needs: "start",
      narrows: true,
      summary: "Show where changes of a task are sent",
      description: "One receiver of the task's push notifications, without its secrets.",
      params: ConfigSchema,
      query: AnyQuerySchema,
      responses: answers("The config"),
      handler: (input) =>
        rest(input, async (requests) => {
          const { id, config } = input.params;
          const found = await requests.getTaskPushNotificationConfig({ tenant: "", taskId: id, id: config });
          return types.TaskPushNotificationConfig.toJSON(found);
        }),
    }),
    keyRoute({
      method: "DELETE",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs/{config}`,
      needs: "start",
      narrows: true,
      summary: "No longer send changes of a task",
      description:
        "Removes a receiver of the task's push notifications. One that does not exist is no error.",
      params: ConfigSchema,
      query: AnyQuerySchema,
      responses: answers("An empty object"),
      handler: (input) =>
        rest(input, async (requests) => {
          const { id, config } = input.params;
          await requests.deleteTaskPushNotificationConfig({ tenant: "", taskId: id, id: config });
          return {};
        }),
    }),
  ];
}

function agentOf(parts: A2aParts, slug: string) {
  const agent = shownAgents(parts).find((one) => one.slug === slug);
  if (!agent) throw new ServiceError("agent_not_found", `Unknown agent "${slug}"`);
  return agent;
}

function splitTarget(target: string): [id: string, verb: string | undefined] {
  const at = target.lastIndexOf(":");
  return at < 0 ? [target, undefined] : [target.slice(0, at), target.slice(at + 1)];
}

/** Says that what is waited for has not come yet. */
const LATE = Symbol("late");

function isEvents(answer: unknown): answer is AsyncGenerator<unknown, void, undefined> {
  return typeof answer === "object" && answer !== null && Symbol.asyncIterator in answer;
}

function notFound(name: string): ServiceError {
  return new ServiceError("not_found", `The protocol has no "${name}" here`);
}

async function* toJson(
  { StreamResponse }: typeof Sdk,
  events: AsyncGenerator<Sdk.StreamResponse, void, undefined>,
): AsyncGenerator<unknown, void, undefined> {
  for await (const event of events) yield StreamResponse.toJSON(event);
}
