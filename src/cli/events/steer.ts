import * as v from "valibot";
import { option } from "../../core/base/option.ts";
import { type CommandInput, defineCommand } from "../command.ts";
import { UsageError } from "../errors.ts";
import { CONNECTION_FLAGS, connectToAdmin } from "./connection.ts";

const flags = v.object({
  all: option.flag("all dead letters"),
  ...CONNECTION_FLAGS,
});

/** `svc events retry`: sends dead letters again. */
export const retry = defineCommand({
  usage: "retry [...ids]",
  summary: "Send dead letters again",
  flags,
  examples: ["svc events retry --all", "svc events retry 0mwqgwlgk0000-45edcc40.control"],
  run: (input) => steer(input, "retry", "retried", "will be sent again"),
});

/** `svc events drop`: removes dead letters. */
export const drop = defineCommand({
  usage: "drop [...ids]",
  summary: "Remove dead letters permanently",
  flags,
  examples: ["svc events drop 0mwqgwlgk0000-45edcc40.control", "svc events drop --all"],
  run: (input) => steer(input, "drop", "dropped", "removed"),
});

async function steer(
  { args, flags: given, context }: CommandInput<typeof flags>,
  verb: "retry" | "drop",
  field: "retried" | "dropped",
  said: string,
): Promise<number> {
  if (given.all === args.length > 0) {
    throw new UsageError("No messages selected", `Use svc events ${verb} <id> …, or --all.`);
  }
  const client = await connectToAdmin(given, context);
  const ids = given.all ? "all" : args;
  const result = await client.post<Record<string, number>>(`/admin/api/events/${verb}`, { ids });
  const count = result[field] ?? 0;
  context.print(
    given.json ? JSON.stringify(result) : `${count} ${count === 1 ? "message" : "messages"} ${said}`,
  );
  return given.all || count === args.length ? 0 : 1;
}
