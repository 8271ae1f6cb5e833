import { HELD_JOBS, type HoldReason } from "../../../core/models/job-state.ts";
import type { BudgetUse } from "../../../core/models/spending.ts";
import type { AdminParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { countOf, toLabel } from "../views/format.ts";
import { pathTo } from "../views/pieces.ts";

/** What needs immediate attention, as the dashboard shows it. */
export interface AlertView {
  readonly kind: "bad" | "warn";
  readonly text: string;
  readonly href: string;
  readonly link: string;
}

/** What a person has to decide, the most urgent first: held jobs, overdue questions, paused agents, budgets. */
export async function readAttention(parts: AdminParts): Promise<AlertView[]> {
  const [held, overdue, budgets] = await Promise.all([
    readHeld(parts),
    readOverdue(parts),
    parts.budgets.list(),
  ]);
  return [...held, ...overdue, ...readPaused(parts), ...budgets.flatMap(toBudgetAlert)];
}

/** Nothing runs of a held job, and an answer to it waits, too: one line for each agent and reason. */
async function readHeld({ jobs }: AdminParts): Promise<AlertView[]> {
  const lines = await Promise.all(
    HELD_JOBS.stop_reason.map(async (stop_reason) => {
      const counts = await jobs.countBy("agent_name", { where: { ...HELD_JOBS, stop_reason } });
      return Object.entries(counts)
        .filter(([, count]) => count > 0)
        .map(([agent, count]) => toHeldAlert(agent, stop_reason, count));
    }),
  );
  return lines.flat();
}

function toHeldAlert(agent: string, stop_reason: HoldReason, count: number): AlertView {
  const is = count === 1 ? "is" : "are";
  const reason = toLabel(stop_reason).toLowerCase();
  return {
    kind: "warn",
    text: `${countOf(count, "job")} of ${agent} ${is} held: ${reason}. ${count === 1 ? "It does" : "They do"} not run until somebody decides.`,
    href: withQuery("/admin/jobs", { status: "held", stop_reason, agent_name: agent }),
    link: "Decide",
  };
}

async function readOverdue({ cases, clock }: AdminParts): Promise<AlertView[]> {
  const deadline = { gte: 0, lt: clock().getTime() };
  const { total } = await cases.list({ where: { status: "awaiting", deadline }, limit: 0 });
  if (total === 0) return [];
  const text = `${countOf(total, "question")} ${total === 1 ? "is" : "are"} past the deadline.`;
  return [{ kind: "warn", text, href: "/admin/inbox", link: "Inbox" }];
}

function readPaused({ runner }: AdminParts): AlertView[] {
  return runner().pausedAgents.map((agent) => {
    const text = `${agent} is paused: its new jobs wait in line.`;
    return { kind: "warn", text, href: pathTo("agents", agent), link: "Agent" };
  });
}

function toBudgetAlert({ agent, period, budget, spent }: BudgetUse): AlertView[] {
  if (spent < budget * 0.8) return [];
  const isOver = spent >= budget;
  const used = isOver ? "all" : `${Math.floor((spent / budget) * 100)} %`;
  const text = `${agent} has used ${used} of its budget of the ${period}.`;
  return [{ kind: isOver ? "bad" : "warn", text, href: pathTo("agents", agent), link: "Agent" }];
}
