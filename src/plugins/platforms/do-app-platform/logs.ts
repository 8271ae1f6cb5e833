import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { reach } from "../../../deploy/network.ts";
import type { Context } from "./context.ts";
import { webSocketMessages } from "./web-socket.ts";

interface LogUrls {
  readonly live_url?: string;
  readonly historic_urls?: readonly string[];
}

/** Lines of the running service; with `follow` it continues until the command ends. */
export async function* appLogs(
  context: Context,
  deployment: { readonly appId: string; readonly id: string },
  follow: boolean,
): AsyncIterable<string> {
  const { live_url, historic_urls = [] } = await logUrls(context, deployment, "RUN", follow);
  if (live_url !== undefined && (follow || historic_urls.length === 0)) return yield* live(context, live_url);
  for (const url of historic_urls) yield* lines(context, url);
}

/**
 * Lines as they are written. The URL is https, or wss, where each message wraps a piece of the log in JSON.
 */
async function* live(context: Context, url: string): AsyncIterable<string> {
  if (!url.startsWith("ws")) return yield* lines(context, url);
  let rest = "";
  for await (const message of webSocketMessages(url, context.tools)) {
    const pieces = `${rest}${pieceOf(message)}`.split(/\r?\n/);
    rest = pieces.pop() ?? "";
    for (const line of pieces) if (line !== "") yield line;
  }
  if (rest !== "") yield rest;
}

function pieceOf(message: string): string {
  try {
    const { data } = JSON.parse(message) as { data?: unknown };
    return typeof data === "string" ? data : "";
  } catch {
    // Text that is not JSON is shown unchanged.
    return `${message}\n`;
  }
}

/** The last lines of a failed deployment. Unreadable logs do not count as another failure. */
export async function lastLogLines(context: Context, appId: string, id: string): Promise<string[]> {
  for (const type of ["DEPLOY", "RUN"]) {
    try {
      const { historic_urls = [] } = await logUrls(context, { appId, id }, type, false);
      const last: string[] = [];
      for (const url of historic_urls) for await (const line of lines(context, url)) last.push(line);
      if (last.length > 0) return last.slice(-20);
    } catch {
      // The deployment itself reports the cause; its log only adds details.
    }
  }
  return [];
}

function logUrls(
  { api }: Context,
  { appId, id }: { readonly appId: string; readonly id: string },
  type: string,
  follow: boolean,
): Promise<LogUrls> {
  return api.get<LogUrls>(`/v2/apps/${appId}/deployments/${id}/logs`, { type, follow });
}

async function* lines({ tools }: Context, url: string): AsyncIterable<string> {
  const response = await reach(tools, url, {}, (answer) => answer);
  if (!response.ok || !response.body) return;
  // The same stream under two names: the library's type and the platform's.
  const body = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
  for await (const line of createInterface({ input: body })) if (line !== "") yield line;
}
