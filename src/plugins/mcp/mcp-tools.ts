import type * as Sdk from "@modelcontextprotocol/client";
import { NonRetryableError } from "../../core/agents/retry-errors.ts";
import type { CaseHandle, JobHandle, StepOptions } from "../../core/agents/run-context.ts";
import { OptionsError } from "../../core/base/check-options.ts";
import { isNotInstalled, optionalPackage } from "../../core/base/optional-package.ts";
import { type NamesOf, refuseUnknown } from "../../core/base/refuse-unknown.ts";
import { VERSION } from "../../core/http/service-state.ts";

/** What a repeated call has, so that a server can recognize it. */
const IDEMPOTENCY_KEY = "agent-control-service/idempotency-key";
/** Codes of JSON-RPC: the method, the tool or its arguments do not exist; a repetition changes nothing. */
const FINAL: readonly number[] = [-32601, -32602];

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

  const connected = async <T>(signal: AbortSignal, work: (client: Sdk.Client) => Promise<T>): Promise<T> => {
    const { Client, StreamableHTTPClientTransport } = await loadSdk();
    const client = new Client(
      { name: "agent-control-service", version: VERSION },
      { versionNegotiation: { mode: "auto" } },
    );
    const given = typeof headers === "function" ? await headers() : headers;
    const transport = new StreamableHTTPClientTransport(address, {
      requestInit: { headers: { ...given } },
      ...(fetch && { fetch }),
    });
    try {
      await client.connect(transport, { signal });
      return await work(client);
    } catch (error) {
      const { code } = error as { code?: unknown };
      throw FINAL.includes(code as number)
        ? new NonRetryableError((error as Error).message, { cause: error })
        : error;
    } finally {
      await client.close().catch(() => {});
    }
  };

  const call: McpTools["call"] = (scope, name, args = {}, options = {}) =>
    scope.step(
      name,
      ({ signal, idempotencyKey }) =>
        connected(signal, async (client) => {
          const _meta = { [IDEMPOTENCY_KEY]: idempotencyKey };
          // The step has a time limit of its own, or none.
          const limits = { signal, timeout: 2 ** 31 - 1 };
          const result = await client.callTool({ name, arguments: { ...args }, _meta }, limits);
          return toResult(result as never);
        }),
      { kind: "tool", input: args, ...options },
    );

  return {
    call,
    async list(scope, options = {}) {
      const listed = await scope.step<Listed[]>(
        `tools of ${address.host}`,
        ({ signal }) =>
          connected(signal, async (client) => {
            const { tools } = await client.listTools(undefined, { signal });
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

function toResult({
  content = [],
  structuredContent,
  isError = false,
}: {
  content?: Record<string, unknown>[];
  structuredContent?: Record<string, unknown>;
  isError?: boolean;
}): McpToolResult {
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
