import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import * as v from "valibot";
import { messageOf } from "../../core/base/error-text.ts";
import { option } from "../../core/base/option.ts";
import type { ReceivedEvent } from "../../core/models/received-event.ts";
import { JsonMapSchema } from "../../core/models/scalars.ts";
import { UsageError } from "../errors.ts";
import { requestCommand } from "../job/request-command.ts";

/** `svc event send`: gives an event to the jobs that wait for it, now or later. */
export const send = requestCommand({
  usage: "send <name>",
  summary: "Send an event to the jobs that wait for it, now or later",
  flags: {
    data: option.text("its data: a JSON object, or @ and a file with one", "json"),
    id: option.text("its id: sending it again with the same id stores nothing", "id"),
  },
  examples: [
    `svc event send payment --data '{ "order": 42 }' --id payment-7731`,
    "svc event send payment --data @payment.json",
  ],
  ask: async (client, { args, flags, context }) =>
    client.post<ReceivedEvent>(`/events/${encodeURIComponent(args[0]!)}`, {
      data: await readData(flags.data ?? "{}", context.cwd),
      ...(flags.id !== undefined && { id: flags.id }),
    }),
  show: ({ name, id }) => `Event ${name} was stored with id ${id}`,
});

async function readData(given: string, cwd: string): Promise<Record<string, unknown>> {
  const file = given.startsWith("@") ? given.slice(1) : undefined;
  try {
    const value: unknown = JSON.parse(
      file === undefined ? given : await readFile(resolve(cwd, file), "utf8"),
    );
    if (v.is(JsonMapSchema, value) && !Array.isArray(value)) return value;
  } catch (error) {
    if (!(error instanceof SyntaxError))
      throw new UsageError(`--data cannot be read: ${messageOf(error)}`, "Check the path after the @.");
  }
  throw new UsageError(
    `--data must be a JSON object${file === undefined ? "" : ` in ${file}`}`,
    `For example: --data '{ "order": 42 }'.`,
  );
}
