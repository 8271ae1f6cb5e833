import * as v from "valibot";
import { digestOf, makeKey } from "../../core/access/make-key.ts";
import { type Access, ROLES } from "../../core/models/access.ts";
import { defineCommand } from "../command.ts";
import type { CliContext } from "../context.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";

const limits = {
  role: v.pipe(v.picklist(ROLES), v.description("what it may do")),
  agents: v.optional(v.pipe(v.string(), v.description("only these agents, separated by commas"))),
  workspace: v.optional(v.pipe(v.string(), v.description("only jobs of this workspace"))),
};
const expires = v.optional(v.pipe(v.string(), v.description("how long it works, such as 90d")));

/** `svc access add`: makes a key, and prints it this once. */
export const add = defineCommand({
  usage: "add <name>",
  summary: "Make a key, and print it this once",
  flags: v.object({ ...CONNECTION_FLAGS, ...limits, expires }),
  examples: ["svc access add billing --role starter --agents invoice-audit --expires 90d"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const { role, workspace } = flags;
    const made = await client.post<{ key: string; access: Access }>("/access", {
      ...{ name: args[0]!, role, workspace, expires_in: flags.expires },
      ...(flags.agents !== undefined && { agents: toList(flags.agents) }),
    });
    printMade(made, { isJson: flags.json === true, context });
    return 0;
  },
});

/** `svc access declare`: makes a key for the option `access.keys`; no service is asked. */
export const declare = defineCommand({
  usage: "declare <name>",
  summary: "Make a key for the option access.keys: print it, and the line for the code",
  flags: v.object(limits),
  examples: ["svc access declare ci --role operator"],
  async run({ args, flags, context }) {
    const { key } = makeKey();
    const { role, agents, workspace } = flags;
    const line = {
      ...{ name: args[0], role, sha256: digestOf(key) },
      ...(agents !== undefined && { agents: toList(agents) }),
      ...(workspace !== undefined && { workspace }),
    };
    context.print(key);
    context.note("The key is shown this once. In the code, as it does not reveal the key:");
    context.note(`createServer({ access: { keys: [${JSON.stringify(line)}] } })`);
    return 0;
  },
});

/** Prints a key alone on standard output, so that it can be piped to where it belongs. */
export function printMade(
  { key, access }: { readonly key: string; readonly access: Access },
  { isJson, context }: { readonly isJson: boolean; readonly context: CliContext },
): void {
  if (isJson) {
    context.print(JSON.stringify({ key, access }, null, 2));
    return;
  }
  context.print(key);
  const end = access.expires_at === null ? "" : `, until ${access.expires_at}`;
  context.note(`The key of "${access.name}" (${access.role}${end}) is shown this once.`);
  if (access.previous_until !== null) context.note(`The former one works until ${access.previous_until}.`);
}

function toList(text: string): string[] {
  return text
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
}
