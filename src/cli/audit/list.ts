import * as v from "valibot";
import type { AuditPage } from "../../core/audit/audit-log.ts";
import { nameOf } from "../../core/audit/caller.ts";
import { needed, option } from "../../core/base/option.ts";
import { AUDIT_ACTIONS, type AuditEntry, describeValue } from "../../core/models/audit-entry.ts";
import { requestCommand, showList } from "../job/request-command.ts";

const flags = {
  action: option.one(AUDIT_ACTIONS, "only this action"),
  who: option.text("only lines whose user name or address contains this text", "text"),
  target: option.text("only lines whose target contains this text, such as a job's id", "text"),
  since: option.text("only lines at or after this day or time, UTC", "time"),
  until: option.text("only lines before this day or time, UTC", "time"),
  limit: v.optional(needed.whole("how many, newest first", 1, 200), 50),
};

/** `svc audit list`: the newest lines. */
export const list = requestCommand({
  usage: "list",
  summary: "List audit log entries, newest first",
  flags,
  examples: [
    "svc audit list",
    "svc audit list --action job.delete --since 2026-01-31",
    "svc audit list --target job-1",
  ],
  admin: true,
  ask(client, { flags: { action, who, target, since, until, limit } }) {
    const given = Object.entries({ action, who, target, since, until, limit: String(limit) });
    const query = new URLSearchParams(given.filter((one): one is [string, string] => one[1] !== undefined));
    return client.get<AuditPage>(`/admin/api/audit?${query}`);
  },
  show({ items, next, total }, { context }) {
    const list = showList(items, { empty: "No matching entries.", header: HEADER, toRow }, context);
    return next === null ? list : `${list}\n… and older ones; ${total} lines in total`;
  },
});

const HEADER = ["no.", "time", "action", "target", "who", "from", "change"];

function toRow({ n, at, action, target, who, address, before, after, outcome }: AuditEntry): string[] {
  const change = [before, after].map(describeValue).filter((part) => part !== "");
  return [
    String(n),
    `${at.slice(0, 19).replace("T", " ")}`,
    outcome === "refused" ? `${action} (refused)` : action,
    target ? `${target.kind} ${target.id}` : "",
    nameOf(who),
    address ?? "",
    change.join(" → ").slice(0, 80),
  ];
}
