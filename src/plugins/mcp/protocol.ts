import type * as Sdk from "@modelcontextprotocol/server";
import type { Caller } from "../../core/audit/caller.ts";
import { isServiceError, textOf } from "../../core/base/errors.ts";
import { shownNow } from "../../core/http/first-response.ts";
import type { StoredJob } from "../../core/models/job.ts";
import { answerByKey } from "../../core/runs/questions/open-questions.ts";
import { TASKS } from "./extension.ts";
import { LegacyCalls } from "./legacy-calls.ts";
import { type McpParts, partsFor } from "./parts.ts";
import { getPrompt, listPrompts, listResources, readResource, sharedTexts } from "./shared-texts.ts";
import { toBegunTask, toDetailedTask, toResult } from "./tasks.ts";
import { callThread } from "./thread-calls.ts";
import { agentOf, callJobTool, findJob, listTools, readKey, startJob, waitFor } from "./tools.ts";

/** Streams of clients that wait for changes of the list of tools, which does not change. */
const MOST_STREAMS = 100;
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

type Values = Readonly<Record<string, unknown>>;
type Context = Sdk.ServerContext;
type Handler = (params: Values, context: Context, by: Caller) => Promise<Values>;

/** Any object: what requests have is checked where it is used. */
const ANY = {
  "~standard": {
    version: 1,
    vendor: "agent-control-service",
    validate: (value: unknown) => ({ value: value as Values }),
  },
} as const;

/** Answers messages of the protocol. */
export interface McpHandler {
  handle(request: Request, message: object, caller: Caller): Promise<Response>;
  /** Ends what is open. */
  close(): Promise<void>;
}

/**
 * Makes what answers messages. It keeps no state: all of it is in the records of the jobs, so any instance answers any
 * message, of all revisions of the protocol.
 */
export function createHandler(sdk: typeof Sdk, whole: McpParts): McpHandler {
  const {
    Server,
    WebStandardStreamableHTTPServerTransport: Transport,
    createMcpHandler,
    isLegacyRequest,
  } = sdk;
  const info = { name: "agent-control-service", version: whole.version };
  const shared = sharedTexts(whole);

  const createServer: Sdk.McpServerFactory = ({ era, authInfo }) => {
    const by = authInfo?.extra?.caller as Caller;
    const parts = partsFor(whole, by);
    const { tools, tasks } = createMethods(sdk, parts);
    const hasTasks = era === "modern";
    const server = new Server(info, {
      capabilities: {
        tools: {},
        ...(shared.prompts && { prompts: {} }),
        ...(shared.resources && { resources: {} }),
        ...(hasTasks && { extensions: { [TASKS]: {} } }),
      },
    });
    server.setRequestHandler("tools/list", async () => ({ tools: listTools(parts) as never }));
    server.setRequestHandler(
      "tools/call",
      async ({ params }, context) => tools(params, context, by) as never,
    );
    if (shared.prompts) {
      server.setRequestHandler("prompts/list", async () => listPrompts(parts) as never);
      server.setRequestHandler("prompts/get", async ({ params }) => getPrompt(sdk, parts, params) as never);
    }
    if (shared.resources) {
      server.setRequestHandler("resources/list", async () => listResources(parts) as never);
      server.setRequestHandler("resources/templates/list", async () => ({ resourceTemplates: [] }));
      server.setRequestHandler(
        "resources/read",
        async ({ params }) => readResource(sdk, parts, params) as never,
      );
    }
    if (hasTasks) {
      for (const [method, handle] of Object.entries(tasks))
        server.setRequestHandler(method, { params: ANY, result: ANY }, (params, context) =>
          handle(params as Values, context, by),
        );
    }
    return server;
  };
  const onerror = (error: Error): void =>
    whole.log.debug("a message of an MCP client was refused", { error });
  const modern = createMcpHandler(createServer, {
    legacy: "reject",
    maxSubscriptions: MOST_STREAMS,
    onerror,
  });

  const calls = new LegacyCalls();

  return {
    async handle(request, parsedBody, caller) {
      const authInfo = { token: "", clientId: "api-key", scopes: [], extra: { caller } };
      if (!(await isLegacyRequest(request, parsedBody)))
        return modern.fetch(request, { authInfo, parsedBody });
      return calls.answer(request, { message: parsedBody, caller }, async (cancelled, streams) => {
        const info = { ...authInfo, extra: { caller, cancelled } };
        const server = await createServer({ era: "legacy", authInfo: info });
        const transport = new Transport({ enableJsonResponse: !streams });
        await server.connect(transport);
        return {
          response: await transport.handleRequest(request, { authInfo: info, parsedBody }),
          close: () => server.close(),
        };
      });
    },
    close: () => modern.close(),
  };
}

function createMethods(sdk: typeof Sdk, parts: McpParts) {
  const { MissingRequiredClientCapabilityError, ProtocolError, ProtocolErrorCode } = sdk;

  const toProtocolError = (error: unknown): unknown => {
    if (error instanceof ProtocolError) return error;
    if (!isServiceError(error)) {
      parts.log.error("a request of an MCP client failed", { error });
      return new ProtocolError(ProtocolErrorCode.InternalError, "Something went wrong in the service");
    }
    const code = error.status < 500 ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError;
    return new ProtocolError(code, textOf(error));
  };
  const guarded =
    (handle: Handler): Handler =>
    async (params, context, by) => {
      try {
        return await handle(params, context, by);
      } catch (error) {
        throw toProtocolError(error);
      }
    };
  const ofTask = (handle: Handler): Handler =>
    guarded(async (params, context, by) => {
      if (!supportsTasks(context)) {
        throw new MissingRequiredClientCapabilityError({
          requiredCapabilities: { extensions: { [TASKS]: {} } },
        });
      }
      return handle(params, context, by);
    });
  const jobOf = ({ taskId }: Values) => findJob(parts, typeof taskId === "string" ? taskId : "");

  return {
    tools: guarded(async ({ name, arguments: given = {} }, context, by) => {
      const [tool, fields] = [String(name), given as Values];
      const { signal, isExplicit } = cancelOf(context);
      const seen = progressOf(context, (job) => parts.runner.describe(job).message);
      try {
        const answered = await callJobTool(parts, tool, fields, { by, signal, seen });
        if (answered) return answered;
        const key = readKey(context.mcpReq._meta);
        const { slug, definition } = agentOf(parts, tool);
        if (definition.chats && fields.thread !== undefined)
          return await callThread(parts, slug, fields, { by, signal, key, seconds: parts.wait / 1000 });
        const job = await startJob(parts, tool, { fields, key });
        if (supportsTasks(context)) return { ...toBegunTask(parts, job), resultType: "task" };
        const seconds = parts.wait / 1000;
        const asked = { job, key: key && `mcp ${key}` };
        const shown = await waitFor(parts, asked, { seconds, signal, seen });
        // A call with a key is made again by a client that lost its connection: its job continues.
        const isCancelled = signal.aborted && (isExplicit || key === undefined) && !parts.closing.aborted;
        if (!isCancelled) return toResult(parts, shown);
        return toResult(parts, await shownNow(parts, await parts.runner.stop(job.id, by)));
      } catch (error) {
        // A model reads it and tries again; an error of the protocol would not reach it.
        if (!isServiceError(error) || error.type === "agent_not_found") throw error;
        return { content: [{ type: "text", text: textOf(error) }], isError: true };
      }
    }),
    tasks: {
      "tasks/get": ofTask(async (params, context) =>
        toDetailedTask(parts, await jobOf(params), { showsForms: showsForms(context) }),
      ),
      "tasks/update": ofTask(async (params, { mcpReq }, by) => {
        const job = await jobOf(params);
        const refused = (mcpReq.droppedInputResponseKeys ?? []).map((key) => `${key}: is not a response`);
        // The SDK takes them out of the parameters.
        for (const [key, response] of Object.entries(mcpReq.inputResponses ?? {})) {
          const { action, content } = (response ?? {}) as { action?: unknown; content?: Values };
          // Declined or cancelled: somebody else may answer.
          if (action !== "accept") continue;
          await answerByKey(parts, job, { key, values: content ?? {} }, by).catch((error: unknown) => {
            if (!isServiceError(error) || error.status >= 500) throw error;
            refused.push(`${key}: ${textOf(error)}`);
          });
        }
        if (refused.length > 0) throw new ProtocolError(ProtocolErrorCode.InvalidParams, refused.join("\n"));
        return {};
      }),
      "tasks/cancel": ofTask(async (params, _context, by) => {
        await parts.runner.stop((await jobOf(params)).id, by);
        return {};
      }),
    } satisfies Record<string, Handler>,
  };
}

/** Fires when the client cancels the call; of the revision of 2026, by closing its request. */
function cancelOf({ mcpReq, http }: Context): { readonly signal: AbortSignal; readonly isExplicit: boolean } {
  const cancelled = http?.authInfo?.extra?.cancelled as AbortSignal | undefined;
  return { signal: cancelled ?? mcpReq.signal, isExplicit: cancelled !== undefined };
}

/** Reports what happens to a job, where the client has asked for it. */
function progressOf(
  { mcpReq }: Context,
  describe: (job: StoredJob) => string,
): ((job: StoredJob) => void) | undefined {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let progress = 0;
  return (job) => {
    const params = { progressToken, progress: ++progress, message: describe(job) };
    // A client that is gone needs no progress.
    mcpReq.notify({ method: "notifications/progress", params }).catch(() => {});
  };
}

interface ClientCapabilities {
  readonly extensions?: Values;
  readonly elicitation?: { readonly form?: unknown; readonly url?: unknown };
}

function capabilitiesOf({ mcpReq }: Context): ClientCapabilities {
  return ((mcpReq.envelope as Values | undefined)?.[CAPABILITIES] ?? {}) as ClientCapabilities;
}

function supportsTasks(context: Context): boolean {
  return capabilitiesOf(context).extensions?.[TASKS] !== undefined;
}

/** Forms are what `elicitation: {}` means, too. */
function showsForms(context: Context): boolean {
  const { elicitation } = capabilitiesOf(context);
  return elicitation !== undefined && (elicitation.form !== undefined || elicitation.url === undefined);
}
