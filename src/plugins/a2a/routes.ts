import type * as Sdk from "@a2a-js/sdk";
import type * as Server from "@a2a-js/sdk/server";
import * as v from "valibot";
import type { Caller } from "../../core/audit/caller.ts";
import { ServiceError } from "../../core/base/errors.ts";
import { readSwitch } from "../../core/base/switch.ts";
import { keyRoutes } from "../../core/http/key-routes.ts";
import type { LiveStreams } from "../../core/http/live-streams.ts";
import { defineRoute, type HttpEvent, type RouteDefinition } from "../../core/http/route.ts";
import type { ServiceState } from "../../core/http/service-state.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import { type CardSigner, toCard } from "./card.ts";
import { type A2aParts, partsFor, shownAgents } from "./parts.ts";
import { type A2aSdk, AgentRequests } from "./requests.ts";

const tag = "Agent2Agent";
const keyRoute = keyRoutes(tag);
const SlugSchema = v.object({ slug: v.string() });
const TargetSchema = v.object({ slug: v.string(), target: v.string() });
const ActionSchema = v.object({ slug: v.string(), action: v.string() });
const TaskSchema = v.object({ slug: v.string(), id: v.string() });
const ConfigSchema = v.object({ slug: v.string(), id: v.string(), config: v.string() });
const RpcSchema = v.looseObject({
  jsonrpc: v.literal("2.0"),
  id: v.optional(v.nullable(v.union([v.string(), v.number()]))),
  method: v.string(),
  params: v.optional(JsonMapSchema),
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
  readonly signer: CardSigner;
  readonly state: ServiceState;
  readonly streams: LiveStreams;
  readonly publicCards: boolean;
}

/** The routes of all agents: their cards, JSON-RPC and REST. */
export function a2aRoutes(sdk: A2aSdk, parts: A2aParts, shared: Shared): RouteDefinition[] {
  const { prefix, signer, state, streams } = shared;
  const { server, types, errors } = sdk;
  const auth = shared.publicCards ? "none" : "key";

  const urlOf = (path: string, event: HttpEvent): string =>
    new URL(`${prefix}${path}`, state.publicUrl ?? event.url).href;
  const cardOf = async (slug: string, event: HttpEvent, caller: Caller): Promise<Sdk.AgentCard> => {
    const agent = agentOf(partsFor(parts, caller), slug);
    const card = toCard(types, agent, urlOf(`/${slug}`, event));
    return signer.sign(card, urlOf(`/${slug}/.well-known/jwks.json`, event));
  };
  const requestsOf = (slug: string, event: HttpEvent, caller: Caller): AgentRequests => {
    const seen = partsFor(parts, caller);
    return new AgentRequests(sdk, seen, agentOf(seen, slug), () => cardOf(slug, event, caller));
  };
  const contextOf = (event: HttpEvent, caller: Caller, signal?: AbortSignal): Server.ServerCallContext => {
    const requestedVersion = event.req.headers.get("a2a-version") ?? "1.0";
    if (requestedVersion !== "1.0") {
      const { VersionNotSupportedError } = errors;
      throw new VersionNotSupportedError(
        `Version ${requestedVersion} is not supported; send A2A-Version: 1.0`,
      );
    }
    const state = new Map<string, unknown>([
      ["caller", caller],
      ["signal", signal],
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
        signal.addEventListener("abort", () => controller.abort(), { once: true });
        const { value, done } = next ?? (await given.next());
        next = undefined;
        return done ? undefined : types.formatSSEEvent(value);
      },
      { caller },
    );
  };
  /** Errors of REST have the protocol's form. */
  const rest = async (work: () => Promise<unknown>): Promise<unknown> => {
    try {
      return await work();
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
    events: (context: Server.ServerCallContext) => AsyncGenerator<Sdk.StreamResponse, void, undefined>,
    { event, caller }: { event: HttpEvent; caller: Caller },
  ): Promise<unknown> => {
    const controller = new AbortController();
    return rest(async () =>
      stream(toJson(types, events(contextOf(event, caller, controller.signal))), { caller, controller }),
    );
  };

  return [
    defineRoute({
      method: "GET",
      path: `${prefix}/{slug}/.well-known/agent-card.json`,
      auth,
      needs: auth === "none" ? "nothing" : "view",
      narrows: true,
      summary: "The card of an agent",
      description: "Signed with a key of `jwks.json` beside it.",
      tag,
      params: SlugSchema,
      query: AnyQuerySchema,
      responses: answers("The card"),
      handler: async ({ params, event, caller }) =>
        types.AgentCard.toJSON(await cardOf(params.slug, event, caller)),
    }),
    defineRoute({
      method: "GET",
      path: `${prefix}/{slug}/.well-known/jwks.json`,
      auth,
      needs: auth === "none" ? "nothing" : "view",
      narrows: true,
      summary: "The key that verifies cards",
      tag,
      params: SlugSchema,
      query: AnyQuerySchema,
      responses: answers("A JSON Web Key Set"),
      handler: ({ params, caller }) => {
        agentOf(partsFor(parts, caller), params.slug);
        return { keys: [signer.jwk] };
      },
    }),
    keyRoute({
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
          const handler = new server.JsonRpcTransportHandler(requestsOf(params.slug, event, caller));
          const answer = await handler.handle(body, context);
          if (!(Symbol.asyncIterator in answer)) return answer;
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
      handler: ({ params: { slug, action }, body, event, caller }) => {
        const requests = requestsOf(slug, event, caller);
        if (action !== "message:send" && action !== "message:stream") throw notFound(action);
        const request = types.SendMessageRequest.fromJSON(body);
        if (action === "message:stream")
          return restStream((context) => requests.sendMessageStream(request, context), {
            event,
            caller,
          });
        return rest(async () => ({
          task: types.Task.toJSON(await requests.sendMessage(request, contextOf(event, caller))),
        }));
      },
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks`,
      needs: "start",
      narrows: true,
      summary: "List the tasks of an agent",
      params: SlugSchema,
      query: QuerySchema,
      responses: answers("A page of tasks"),
      handler: ({ params, query, event, caller }) =>
        rest(async () => {
          const { pageSize, historyLength, includeArtifacts, ...others } = query;
          const request = types.ListTasksRequest.fromJSON({
            ...others,
            ...(pageSize !== undefined && { pageSize: Number(pageSize) }),
            ...(historyLength !== undefined && { historyLength: Number(historyLength) }),
            includeArtifacts: switchOf("includeArtifacts", includeArtifacts),
          });
          return types.ListTasksResponse.toJSON(
            await requestsOf(params.slug, event, caller).listTasks(request),
          );
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
      handler: ({ params, event, caller }) => {
        const requests = requestsOf(params.slug, event, caller);
        const [id, verb] = splitTarget(params.target);
        if (verb === "subscribe")
          return restStream((context) => requests.resubscribe({ tenant: "", id }, context), {
            event,
            caller,
          });
        if (verb !== undefined) throw notFound(params.target);
        return rest(async () => types.Task.toJSON(await requests.getTask({ tenant: "", id })));
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
      handler: ({ params, event, caller }) => {
        const requests = requestsOf(params.slug, event, caller);
        const [id, verb] = splitTarget(params.target);
        if (verb === "subscribe")
          return restStream((context) => requests.resubscribe({ tenant: "", id }, context), {
            event,
            caller,
          });
        if (verb !== "cancel") throw notFound(params.target);
        const request = { tenant: "", id, metadata: undefined };
        return rest(async () =>
          types.Task.toJSON(await requests.cancelTask(request, contextOf(event, caller))),
        );
      },
    }),
    keyRoute({
      method: "POST",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs`,
      needs: "start",
      narrows: true,
      summary: "Have changes of a task sent to a URL",
      params: TaskSchema,
      query: AnyQuerySchema,
      body: JsonMapSchema,
      responses: answers("The config"),
      handler: ({ params, body, event, caller }) =>
        rest(async () => {
          const config = types.TaskPushNotificationConfig.fromJSON({ ...body, taskId: params.id });
          const stored = await requestsOf(params.slug, event, caller).createTaskPushNotificationConfig(
            config,
          );
          return types.TaskPushNotificationConfig.toJSON(stored);
        }),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs`,
      needs: "start",
      narrows: true,
      summary: "List where changes of a task are sent",
      params: TaskSchema,
      query: v.looseObject({ pageSize: v.optional(v.string()), pageToken: v.optional(v.string()) }),
      responses: answers("The configs"),
      handler: ({ params, event, caller }) =>
        rest(async () => {
          const request = { tenant: "", taskId: params.id, pageSize: 0, pageToken: "" };
          const listed = await requestsOf(params.slug, event, caller).listTaskPushNotificationConfigs(
            request,
          );
          return types.ListTaskPushNotificationConfigsResponse.toJSON(listed);
        }),
    }),
    keyRoute({
      method: "GET",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs/{config}`,
      needs: "start",
      narrows: true,
      summary: "Show where changes of a task are sent",
      params: ConfigSchema,
      query: AnyQuerySchema,
      responses: answers("The config"),
      handler: ({ params: { slug, id, config }, event, caller }) =>
        rest(async () => {
          const request = { tenant: "", taskId: id, id: config };
          const found = await requestsOf(slug, event, caller).getTaskPushNotificationConfig(request);
          return types.TaskPushNotificationConfig.toJSON(found);
        }),
    }),
    keyRoute({
      method: "DELETE",
      path: `${prefix}/{slug}/tasks/{id}/pushNotificationConfigs/{config}`,
      needs: "start",
      narrows: true,
      summary: "No longer send changes of a task",
      params: ConfigSchema,
      query: AnyQuerySchema,
      responses: answers("An empty object"),
      handler: ({ params: { slug, id, config }, event, caller }) =>
        rest(async () => {
          const request = { tenant: "", taskId: id, id: config };
          await requestsOf(slug, event, caller).deleteTaskPushNotificationConfig(request);
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

function notFound(name: string): ServiceError {
  return new ServiceError("not_found", `The protocol has no "${name}" here`);
}

async function* toJson(
  { StreamResponse }: typeof Sdk,
  events: AsyncGenerator<Sdk.StreamResponse, void, undefined>,
): AsyncGenerator<unknown, void, undefined> {
  for await (const event of events) yield StreamResponse.toJSON(event);
}
