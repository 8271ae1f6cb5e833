import type { Caller } from "../../../core/audit/caller.ts";
import type { AttentionItem } from "../../../core/models/attention.ts";
import { withQuery } from "../query.ts";
import { offeredTo } from "../viewer.ts";
import { pathTo } from "../views/pieces.ts";

/** What needs a person, as the dashboard shows it. */
export interface AttentionView {
  /** The status whose mark it has. */
  readonly mark: "failed" | "awaiting" | "held";
  /** In a word. */
  readonly label: string;
  readonly text: string;
  readonly href: string;
  readonly link: string;
}

/** An item of the list, with the page where something can be done about it, or seen by who may not. */
export function toAttentionView(item: AttentionItem, caller: Caller): AttentionView {
  const { severity, text, kind } = item;
  const [label, wanted, href] = PLACES[kind](item);
  const link = wanted === DECIDE && !offeredTo(caller).operate ? LOOK : wanted;
  const mark = kind === "held" ? kind : severity === "bad" ? "failed" : "awaiting";
  return { mark, label, text, link, href };
}

const DECIDE = "Decide";
const LOOK = "Look";

type Place = readonly [label: string, link: string, href: string];

const PLACES: Readonly<Record<AttentionItem["kind"], (item: AttentionItem) => Place>> = {
  store: () => ["Store", "Server page", "/admin/server"],
  backup: () => ["Backup", "Server page", "/admin/server"],
  deliveries: () => ["Given up", "Deliveries", "/admin/deliveries"],
  stuck: ({ job_ids: [id, ...more] }) => [
    "Stuck",
    LOOK,
    id !== undefined && more.length === 0 ? pathTo("jobs", id) : "/admin/jobs?status=stuck",
  ],
  held: ({ agent, reason }) => [
    "Held",
    DECIDE,
    withQuery("/admin/jobs", {
      status: "held",
      stop_reason: reason ?? undefined,
      agent_name: agent ?? undefined,
    }),
  ],
  failures: ({ reason }) => [
    "Failures",
    "Jobs",
    withQuery("/admin/jobs", { status: "failed", failure: reason ?? undefined, sort: "-finished_at" }),
  ],
  questions: () => ["Overdue", "Inbox", "/admin/inbox"],
  budget: ({ agent }) => ["Budget", "Agent", pathTo("agents", agent ?? "")],
  paused: ({ agent }) => ["Paused", "Agent", pathTo("agents", agent ?? "")],
};
