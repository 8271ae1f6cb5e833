import type { AgentMethodField } from "../../core/models/agent-method-field.ts";
import type { Case } from "../../core/models/case.ts";
import type { ServiceClient } from "./service-client.ts";

/** An open question, and the command that answers it. */
export function describeQuestion(item: Case, client: Pick<ServiceClient, "command">): string {
  const { question } = item;
  if (!question) return "";
  const until = question.deadline ? ` (until ${question.deadline.slice(0, 19).replace("T", " ")} UTC)` : "";
  const fields = question.fields.map((field) => `--field ${field.name}=${example(field)}`).join(" ");
  return [
    "",
    `? ${question.question}${until}`,
    ...(question.note === undefined ? [] : [`  ${question.note}`]),
    `  ${client.command("job", "answer", item.job_id, item.id, fields)}`,
    "",
  ].join("\n");
}

function example(field: AgentMethodField): string {
  if (field.field_type === "BooleanField") return "yes";
  const choice = field.choices?.[0];
  if (choice !== undefined) return typeof choice === "string" ? choice : choice[0];
  return "…";
}
