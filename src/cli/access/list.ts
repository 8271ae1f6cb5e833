import type { Access } from "../../core/models/access.ts";
import { requestCommand, showList } from "../job/request-command.ts";

/** `svc access list`: who has a key, and what it may do. */
export const list = requestCommand({
  usage: "list",
  summary: "List the keys: what each may do, until when, and when it was last used",
  examples: ["svc access list", "svc access list --json"],
  ask: (client) => client.get<Access[]>("/access"),
  show: (keys, { context }) =>
    showList(keys, { empty: "There are no keys except the API key.", header: HEADER, toRow }, context),
});

const HEADER = ["name", "role", "agents", "workspace", "expires", "last used", "id"];

function toRow({ id, name, role, agents, workspace, expires_at, used_at, source }: Access): string[] {
  const used = source === "declared" ? "not recorded" : (used_at ?? "never");
  return [name, role, agents?.join(", ") ?? "all", workspace ?? "all", expires_at ?? "never", used, id];
}
