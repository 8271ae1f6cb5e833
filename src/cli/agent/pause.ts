import * as v from "valibot";
import { type CommandInput, defineCommand } from "../command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";

const flags = v.object(CONNECTION_FLAGS);

/** `svc agent pause`: an agent starts no new jobs. */
export const pause = defineCommand({
  usage: "pause <agent>",
  summary: "Let an agent start no new jobs: they wait in line, those that have started continue",
  flags,
  examples: ["svc agent pause invoice-audit"],
  run: (input) => steer(input, "pause", "is paused: its new jobs wait"),
});

/** `svc agent resume`: a paused agent starts jobs again. */
export const resume = defineCommand({
  usage: "resume <agent>",
  summary: "Let a paused agent start its waiting jobs, in their order",
  flags,
  examples: ["svc agent resume invoice-audit"],
  run: (input) => steer(input, "resume", "is resumed"),
});

async function steer(
  { args, flags: given, context }: CommandInput<typeof flags>,
  verb: string,
  done: string,
): Promise<number> {
  const client = await connect(given, context);
  const [slug] = args as [string];
  const answer = await client.post(`/admin/api/agents/${encodeURIComponent(slug)}/${verb}`, {});
  context.print(given.json ? JSON.stringify(answer, null, 2) : `Agent ${slug} ${done}`);
  return 0;
}
