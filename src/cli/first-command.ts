import type { AgentMethodField } from "../core/models/agent-method-field.ts";
import type { ServiceClient } from "./job/service-client.ts";

/** What to run first with an agent: a chat waits for messages, any other job gets a placeholder for each required input. */
export function firstCommand(
  slug: string,
  { fields, chats }: { readonly fields: readonly AgentMethodField[]; readonly chats: boolean },
): string {
  if (chats) return `npx svc chat ${slug}`;
  const required = fields
    .filter((field) => field.required)
    .map(({ name, field_type }) => ` --field ${name}=${field_type === "FileField" ? "@" : ""}…`);
  return `npx svc job start ${slug}${required.join("")} --wait`;
}

/** The slugs of a running service's chat agents. */
export async function listChatAgents(client: ServiceClient): Promise<string[]> {
  const { data } = await client.get<{ data: { id: string }[] }>("/v1/models");
  return data.map(({ id }) => id);
}
