import type * as Sdk from "@modelcontextprotocol/client";
import { NonRetryableError } from "../../core/agents/retry-errors.ts";
import type { CaseHandle, JobHandle, StepInfo, StepOptions } from "../../core/agents/run-context.ts";
import { OptionsError } from "../../core/base/check-options.ts";
import { isNotInstalled, optionalPackage } from "../../core/base/optional-package.ts";
import { type NamesOf, refuseUnknown } from "../../core/base/refuse-unknown.ts";
import { VERSION } from "../../core/http/service-state.ts";
import { IDEMPOTENCY_KEY, TASKS } from "./extension.ts";
import { type Connection, callAsTask, mayBecomeTask, type RemoteTask, resultOfTask } from "./remote-tasks.ts";

/** Codes of JSON-RPC: the method, the tool or its arguments do not exist; a repetition changes nothing. */
const FINAL: readonly number[] = [-32601, -32602];
const INFO = { name: "agent-control-service", version: VERSION };
const CAPABILITIES = { extensions: { [TASKS]: {} } };
/** A task continues while its server, or the way there, does not answer: asking again repeats nothing. */
const TASK_RETRIES = 10;

export interface McpToolsOptions {
  /** Headers of each request, such as the server's key; a function is called before each request. @default none */
  readonly headers?:
    | Readonly<Record<string, string>>
    | (() => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>);
  /** Sends the requests. @default the global `fetch` */
  readonly fetch?: typeof fetch;
}

const NAMES: NamesOf<McpToolsOptions> = { headers: true, fetch: true };

/** What has steps: a job or a case. */
export type StepScope = Pick<JobHandle | CaseHandle, "step">;

/** A tool of a server, whose calls are steps of the job or case that it was listed for. */
export interface McpTool {
  readonly name: string;
  readonly description: string | undefined;
  /** JSON Schema of its arguments. */
  readonly inputSchema: Readonly<Record<string, unknown>>;
  call(args?: Readonly<Record<string, unknown>>, options?: StepOptions): Promise<McpToolResult>;
}

/** The result of a tool. An error that the tool itself reports is a result, too: a model may act on it. */
export interface McpToolResult {
  /** Its texts, one a line. */
  readonly text: string;
  readonly content: readonly Readonly<Record<string, unknown>>[];
  readonly structuredContent?: Readonly<Record<string, unknown>>;
  readonly isError: boolean;
}

/** The tools of a server. */
export interface McpTools {
  /** Lists the tools, as a step: when the job resumes, it has the same ones. */
  list(scope: StepScope, options?: StepOptions): Promise<McpTool[]>;
  /** Calls a tool, as a step of its name: a call that was recorded is not made again. */
  call(
    scope: StepScope,
    name: string,
    args?: Readonly<Record<string, unknown>>,
    options?: StepOptions,
  ): Promise<McpToolResult>;
}

type Listed = Pick<McpTool, "name" | "description" | "inputSchema">;

/**
 * Gives agents the tools of a server of the Model Context Protocol, over streamable HTTP, as durable steps. Needs the
 * package `@modelcontextprotocol/client`.
 *
 * @example
 * const files = mcpTools("https://files.example.com/mcp", { headers: () => ({ authorization: `Bearer ${token()}` }) });
 * const found = await files.call(job, "search", { query: "contract" }, { retries: 3 });
 */
export function mcpTools(url: string | URL, options: McpToolsOptions = {}): McpTools {
  refuseUnknown(options, NAMES, "mcpTools");
  const { headers = {}, fetch } = options;
  const address = new URL(url);

  const connected = async <T>(
    { signal, traceHeaders }: Pick<StepInfo, "signal" | "traceHeaders">,
    work: (connection: Connection, trace: Readonly<Record<string, string>>) => Promise<T>,
  ): Promise<T> => {
    const sdk = await loadSdk();
    const client = new sdk.Client(INFO, {
      capabilities: CAPABILITIES,
      versionNegotiation: { mode: "auto" },
    });
    const given = typeof headers === "function" ? await headers() : headers;
    const trace = await traceHeaders();
    const transport = new sdk.StreamableHTTPClientTransport(address, {
      requestInit: { headers: { ...trace, ...given } },
      ...(fetch && { fetch }),
    });
    try {
      await client.connect(transport, { signal });
      const envelope =
        client.getProtocolEra() === "modern"
          ? {
              [sdk.PROTOCOL_VERSION_META_KEY]: client.getNegotiatedProtocolVersion(),
              [sdk.CLIENT_INFO_META_KEY]: INFO,
              [sdk.CLIENT_CAPABILITIES_META_KEY]: CAPABILITIES,
            }
          : undefined;
      return await work({ client, transport, envelope }, trace);
    } catch (error) {
      const { code } = error as { code?: unknown };
      throw FINAL.includes(code as number)
        ? new NonRetryableError((error as Error).message, { cause: error })
        : error;
    } finally {
      await client.close().catch(() => {});
    }
  };

  const call: McpTools["call"] = async (scope, name, args = {}, options = {}) => {
    const called = await scope.step<McpToolResult | RemoteTask>(
      name,
      (info) =>
        connected(info, async (connection, trace) => {
          const { signal, idempotencyKey } = info;
          const params = {
            name,
            arguments: { ...args },
            _meta: { ...trace, [IDEMPOTENCY_KEY]: idempotencyKey },
          };
          if (await mayBecomeTask(connection, name, signal)) {
            const result = await callAsTask(connection, params, signal);
            return "task" in result ? (result as RemoteTask) : toResult(result);
          }
          // The step has a time limit of its own, or none.
          return toResult(await connection.client.callTool(params, { signal, timeout: 2 ** 31 - 1 }));
        }),
      { kind: "tool", input: args, ...options },
    );
    if (!("task" in called)) return called;
    const { cost: _cost, key, ...waiting } = options;
    return scope.step(
      `${name} task`,
      (info) =>
        connected(info, async (connection) => toResult(await resultOfTask(connection, called, info.signal))),
      { retries: TASK_RETRIES, ...waiting, input: called, ...(key !== undefined && { key: `${key} task` }) },
    );
  };

  return {
    call,
    async list(scope, options = {}) {
      const listed = await scope.step<Listed[]>(
        `tools of ${address.host}`,
        (info) =>
          connected(info, async ({ client }) => {
            const { tools } = await client.listTools(undefined, { signal: info.signal });
            return tools.map(({ name, description, inputSchema }) => ({
              name,
              ...(description !== undefined && { description }),
              inputSchema,
            })) as Listed[];
          }),
        { kind: "tool", ...options },
      );
      return listed.map(({ name, description, inputSchema }) => ({
        ...{ name, description, inputSchema },
        call: (args, given) => call(scope, name, args, given),
      }));
    },
  };
}

function toResult(result: object): McpToolResult {
  const {
    content = [],
    structuredContent,
    isError = false,
  } = result as {
    content?: Record<string, unknown>[];
    structuredContent?: Record<string, unknown>;
    isError?: boolean;
  };
  const texts = content.flatMap(({ type, text }) => (type === "text" ? [String(text)] : []));
  return { text: texts.join("\n"), content, ...(structuredContent && { structuredContent }), isError };
}

/** Loads the SDK, which only those have who use such tools. */
function loadSdk(): Promise<typeof Sdk> {
  return optionalPackage(
    () => import("@modelcontextprotocol/client"),
    () => new OptionsError(isNotInstalled("mcpTools()", "@modelcontextprotocol/client", 2)),
  );
}
