import { randomBytes } from "node:crypto";
import * as v from "valibot";
import { needed, option } from "../core/base/option.ts";
import { defineCommand } from "./command.ts";
import { ModeSchema } from "./control/behaviour.ts";
import type { Received } from "./control/inbox.ts";
import { CliError } from "./errors.ts";
import { listenForStop } from "./stop-signal.ts";

const FlagsSchema = v.object({
  port: v.optional(needed.whole("port to listen on, 0 for a free one", 0, 65535), 8100),
  host: v.optional(v.pipe(v.string(), v.description("address to listen on")), "127.0.0.1"),
  workspace: v.optional(v.pipe(v.string(), v.nonEmpty(), v.description("workspace to serve")), "dev"),
  fail: v.optional(
    v.pipe(
      ModeSchema,
      v.description("how to answer: ok, a status such as 503, hang, reset, cut or slow"),
      v.metadata({ value: "mode" }),
    ),
  ),
  times: v.optional(
    v.pipe(
      v.number(),
      v.integer(),
      v.minValue(1),
      v.description("number of messages that --fail applies to; all by default"),
    ),
  ),
  retryAfter: option.text("Retry-After header of failures, seconds or a date"),
  keep: v.optional(
    v.pipe(v.number(), v.integer(), v.minValue(10), v.description("messages to keep in memory")),
    20_000,
  ),
  quiet: option.flag("do not print incoming messages"),
});

/** `svc control`: a control system for development. */
export const control = defineCommand({
  usage: "control",
  summary: "Run a development control system that shows events and telemetry, and fails on demand",
  flags: FlagsSchema,
  examples: ["svc control", "svc control --fail 503 --times 5", "svc control --fail 429 --retry-after 2"],
  async run({ flags, context }) {
    const { startControlServer } = await import("./control/control-server.ts");
    const apiKey = context.env.SERVICE_ACCOUNT_API_KEY || randomBytes(18).toString("base64url");
    const stop = listenForStop(() => {});
    const server = await startControlServer({
      host: flags.host,
      port: flags.port,
      workspace: flags.workspace,
      apiKey,
      webhookSecret: context.env.SVC_CONTROL_WEBHOOK_SECRET || undefined,
      order: { mode: flags.fail ?? "ok", times: flags.times, retry_after: flags.retryAfter },
      keep: flags.keep,
      onReceived: flags.quiet ? undefined : (item) => context.print(describeReceived(item)),
    }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EADDRINUSE") throw error;
      throw new CliError(`Port ${flags.port} is in use by another program`, {
        detail: "Choose another port with --port, or --port 0 for any free one.",
        cause: error,
      });
    });
    context.print(
      `Development control system at ${server.url}/ (its page shows messages and can make it fail)`,
    );
    context.print("Start the service with:");
    context.print(`  export SERVICE_ACCOUNT_API_URL=${server.url}`);
    context.print(`  export SERVICE_ACCOUNT_WORKSPACE_ID=${flags.workspace}`);
    // A key generated for this run; only the person who runs it sees the terminal.
    const own = context.env.SERVICE_ACCOUNT_API_KEY ? "(the value set in this environment)" : apiKey;
    context.print(`  export SERVICE_ACCOUNT_API_KEY=${own}`);
    await stop.received;
    await server.close();
    stop.release();
    return 0;
  },
});

/** One line per incoming message. */
export function describeReceived({ at, kind, body, duplicate, problems }: Received): string {
  const { event_type, eventType, type, source, details, agentId } = (body ?? {}) as Record<string, unknown>;
  const { index, name, status, is_final } = (details ?? {}) as Record<string, unknown>;
  const said = [index !== undefined && `#${index}`, name, status, is_final === true && "(final)"];
  const parts = [
    at.slice(11, 23),
    kind.padEnd(9),
    String(event_type ?? eventType ?? type ?? "?").padEnd(28),
    JSON.stringify(source ?? agentId ?? null),
    ...said.filter((part) => part !== undefined && part !== null && part !== false),
    duplicate ? "(again)" : "",
    problems.length > 0 ? `PROBLEM: ${problems.join("; ")}` : "",
  ];
  // Incoming text must not control the terminal.
  return parts
    .join(" ")
    .replace(/\p{Cc}/gu, " ")
    .trimEnd();
}
