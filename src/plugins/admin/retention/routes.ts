import { KEPT_STATUSES, type RetentionPolicy } from "../../../core/agents/retention-policy.ts";
import { countOf } from "../../../core/base/count-of.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import { adminRoute } from "../admin-route.ts";
import { RetentionSchema } from "../answers/service.ts";
import type { AdminParts } from "../parts.ts";
import { formatCount, formatDuration } from "../views/format.ts";

/** How long jobs are kept, what is removed next and what has been removed. */
export function retentionRoutes(parts: AdminParts): RouteDefinition[] {
  return [
    adminRoute({
      method: "GET",
      path: "/admin/api/retention",
      needs: "view",
      summary: "Show how long jobs are kept, and what is removed next",
      description: "The rules of retention, and the jobs that they remove next.",
      responses: {
        200: { description: "The times, what is due, what was removed", schema: RetentionSchema },
      },
      handler: () => readRetention(parts),
    }),
  ];
}

export async function readRetention({ retention, service, agents }: AdminParts) {
  const own = agents.list().filter(({ definition }) => definition.retention !== undefined);
  const { id: _, ...removed } = (await retention.state()) ?? { id: "" };
  return {
    policy: service.retention,
    agents: Object.fromEntries(own.map(({ slug }) => [slug, retention.policyOf(slug)])),
    due: await retention.due(),
    removed: "at" in removed ? removed : null,
  };
}

/** Retention as a card of the server page. */
export function retentionFacts(data: Awaited<ReturnType<typeof readRetention>>) {
  const { policy, agents, due, removed } = data;
  const waiting = due.reduce((sum, { jobs }) => sum + jobs, 0);
  return [
    { name: "Jobs are kept", value: toText(policy) },
    ...Object.entries(agents).map(([slug, own]) => ({ name: slug, value: toText(own) })),
    { name: "Due now", value: formatCount(waiting) },
    ...(removed
      ? [
          {
            name: "Removed",
            value: `${countOf(removed.jobs, "job")}, ${countOf(removed.cases, "case")} since ${day(removed.since)}`,
          },
          {
            name: "Last",
            value: `${formatCount(removed.last.jobs)} ${removed.last.status} of ${removed.last.agent}, ${day(removed.at)}`,
          },
        ]
      : []),
  ];
}

function toText(policy: RetentionPolicy): string {
  const limited = KEPT_STATUSES.filter((status) => policy[status] !== null);
  if (limited.length === 0) return "indefinitely";
  const parts = limited.map((status) => `${status} for ${formatDuration(policy[status]!)}`);
  return limited.length === KEPT_STATUSES.length
    ? parts.join(", ")
    : `${parts.join(", ")}, others indefinitely`;
}

function day(timestamp: string): string {
  return `${timestamp.slice(0, 16).replace("T", " ")} UTC`;
}
