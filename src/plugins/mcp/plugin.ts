import type * as Sdk from "@modelcontextprotocol/server";
import * as v from "valibot";
import type { Duration } from "../../core/base/duration.ts";
import { isNotInstalled, optionalPackage } from "../../core/base/optional-package.ts";
import { jsonRpcErrors } from "../../core/http/json-rpc-errors.ts";
import { defineRoute } from "../../core/http/route.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import { definePlugin, type Plugin, PluginError } from "../../core/service/plugin.ts";
import {
  noSuchAgent,
  OptionDurationSchema,
  protocolParts,
  protocolPath,
} from "../../core/service/protocol-parts.ts";
import { OPTIONS, RETENTION, ROUTER, SERVICE_STATE } from "../../core/service/tokens.ts";
import { OwnOrigins } from "./own-origins.ts";
import type { McpParts } from "./parts.ts";
import { createHandler } from "./protocol.ts";
import { assertDistinct } from "./shared-texts.ts";

export interface McpOptions {
  /** Path of the endpoint, after the service's `apiPrefix`. @default "/mcp" */
  readonly path?: string;
  /** Slugs of the agents that clients see. @default all agents */
  readonly agents?: readonly string[];
  /** How long clients should wait between two requests about a task. @default "1s" */
  readonly pollInterval?: Duration;
  /** How long a call of a client without tasks waits for its job, at most a minute. @default "20s" */
  readonly wait?: Duration;
}

const OptionsSchema = v.strictObject({
  path: protocolPath("/mcp"),
  agents: v.optional(v.array(v.string())),
  pollInterval: v.optional(OptionDurationSchema, "1s"),
  wait: v.optional(v.pipe(OptionDurationSchema, v.maxValue(60_000, "must be at most 60s")), "20s"),
});

const IdSchema = v.optional(v.nullable(v.union([v.string(), v.number()])));
const MessageSchema = v.looseObject({
  jsonrpc: v.literal("2.0"),
  id: IdSchema,
  method: v.string(),
  params: v.optional(JsonMapSchema),
});
const AnswerSchema = v.object({
  jsonrpc: v.literal("2.0"),
  id: IdSchema,
  result: v.optional(JsonMapSchema),
  error: v.optional(v.object({ code: v.number(), message: v.string(), data: v.optional(v.unknown()) })),
});

/**
 * Serves the agents to clients of the Model Context Protocol, over streamable HTTP: each agent is a tool, a job a task,
 * and a question a form. Needs the package `@modelcontextprotocol/server`.
 *
 * @example
 * createServer({ agents: [auditor], plugins: [mcp()] });
 */
export const mcp = definePlugin({
  name: "mcp",
  options: OptionsSchema,
  async setup(context) {
    const { options, get, onClose } = context;
    const sdk = await loadSdk();
    const parts: McpParts = {
      ...protocolParts(context, options.agents),
      retention: get(RETENTION),
      pollInterval: options.pollInterval,
      wait: options.wait,
      version: VERSION,
    };
    for (const slug of options.agents ?? [])
      if (!parts.agents.find(slug)) throw noSuchAgent("mcp", slug, parts.agents);
    assertDistinct(parts);
    const origins = new OwnOrigins(get(OPTIONS).allowedOrigins, get(SERVICE_STATE));
    const handler = createHandler(sdk, parts);
    onClose(() => handler.close());
    get(ROUTER).add(
      defineRoute({
        method: "POST",
        path: `${get(OPTIONS).apiPrefix}${options.path}`,
        auth: "key",
        accessTokens: true,
        needs: "start",
        narrows: true,
        summary: "Model Context Protocol",
        description:
          "One message of the Model Context Protocol, streamable HTTP: of revision 2026-07-28 with the extension `io.modelcontextprotocol/tasks`, or of the revisions before it. Errors of the protocol are JSON-RPC errors.",
        tag: "Model Context Protocol",
        body: MessageSchema,
        errors: jsonRpcErrors(),
        responses: {
          200: { description: "The answer", schema: AnswerSchema },
          202: { description: "The notification was accepted" },
        },
        handler: ({ body, event, caller }) => {
          origins.check(event.req.headers.get("origin"));
          const headers = new Headers(event.req.headers);
          // Some clients name one of them; answers are JSON in any case.
          headers.set("accept", "application/json, text/event-stream");
          const { url, signal } = event.req;
          return handler.handle(new Request(url, { method: "POST", headers, signal }), body, caller);
        },
      }),
    );
  },
}) as (options?: McpOptions) => Plugin;

/** Loads the SDK, which only those have who use this plugin. */
function loadSdk(): Promise<typeof Sdk> {
  return optionalPackage(
    () => import("@modelcontextprotocol/server"),
    () => new PluginError(isNotInstalled('Plugin "mcp"', "@modelcontextprotocol/server", 2)),
  );
}
