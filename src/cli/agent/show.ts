import * as v from "valibot";
import type { AgentMethodField } from "../../core/models/agent-method-field.ts";
import type { AgentResponse } from "../../core/models/agent-response.ts";
import { defineCommand } from "../command.ts";
import { firstCommand, listChatAgents } from "../first-command.ts";
import { CONNECTION_FLAGS, connect } from "../job/connection.ts";
import { renderTable } from "../table.ts";

/** `svc agent show`: an agent's inputs and parameters, and how to start it. */
export const show = defineCommand({
  usage: "show <agent>",
  summary: "Show an agent's inputs and parameters, and how to start it",
  flags: v.object(CONNECTION_FLAGS),
  examples: ["svc agent show invoice-audit"],
  async run({ args, flags, context }) {
    const client = await connect(flags, context);
    const agent = await client.get<AgentResponse>(`/agents/${encodeURIComponent(args[0]!)}`);
    if (flags.json) context.print(JSON.stringify(agent, null, 2));
    else context.print(render(agent, (await listChatAgents(client)).includes(agent.slug)));
    return 0;
  },
});

function render(agent: AgentResponse, chats: boolean): string {
  const { slug } = agent;
  const fields = agent.methods?.job_start.fields ?? [];
  const parameters = agent.parameters_setup ?? [];
  return [
    `${agent.name} ${agent.version}`,
    ...(agent.description ? [agent.description] : []),
    ...(fields.length > 0
      ? ["", renderTable(["input", "type", "required", "default", "about"], fields.map(toRow))]
      : ["", "It has no inputs."]),
    ...(parameters.length > 0
      ? [
          "",
          `Parameters: ${parameters.map(({ name, is_required }) => `${name}${is_required ? "" : " (optional)"}`).join(", ")}`,
        ]
      : []),
    "",
    `${chats ? "Chat" : "Start a job"}: ${firstCommand(slug, { fields, chats })}`,
  ].join("\n");
}

function toRow(field: AgentMethodField): string[] {
  const { name, field_type, required, description } = field;
  const shown = field.default === null || field.default === undefined ? "" : JSON.stringify(field.default);
  return [
    name,
    field_type.replace(/Field$/, "").toLowerCase(),
    required ? "yes" : "no",
    shown,
    description ?? "",
  ];
}
