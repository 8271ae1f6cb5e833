import * as v from "valibot";
import { countOf } from "../../../core/base/count-of.ts";
import type { RouteDefinition } from "../../../core/http/route.ts";
import type { FailureMark } from "../../../core/models/own-rows.ts";
import { isHeard } from "../../../core/runs/attention/failure-marks.ts";
import { readTrends } from "../../../core/runs/attention/failure-trends.ts";
import { FailuresSchema } from "../answers/entities.ts";
import type { AdminParts, SeenParts } from "../parts.ts";
import { filterQuery, optionalText, withoutEmpty, withQuery } from "../query.ts";
import { resourceRoutes } from "../resource-routes.ts";
import type { Resource } from "../respond.ts";
import { formatCount, toLabel } from "../views/format.ts";
import { html } from "../views/html.ts";
import { pathTo, timePiece } from "../views/pieces.ts";
import { markRoutes } from "./mark-routes.ts";
import { readOverTime, renderSpark } from "./over-time.ts";
import { type FailureGroup, isLimit, readFailures } from "./read-failures.ts";

const DAY = 86_400_000;
const PERIODS = [
  ["1", "24 hours"],
  ["7", "7 days"],
  ["30", "30 days"],
  ["", "All"],
] as const;

const QuerySchema = filterQuery({ days: optionalText(v.picklist(["1", "7", "30"])) });

/** Limits that a retry meets again. */
const LIMITS = {
  max_cost: { text: "A retry would meet the limit of cost again.", label: "New limit of cost", step: "any" },
  max_duration: { text: "A retry would meet the time limit again.", label: "New limit, seconds", step: "1" },
  max_cases: { text: "A retry would meet the limit of cases again.", label: "New limit of cases", step: "1" },
} as const;

/** Failed jobs by reason: page and API. */
export function failureRoutes(parts: AdminParts): RouteDefinition[] {
  const shown = resourceRoutes(parts, {
    needs: "view",
    page: ["/admin/failures", "Failures page"],
    api: [
      "/admin/api/failures",
      "Failed jobs by reason",
      "`trend` counts the jobs that failed in each fourteenth of the time (30 days where `days` is omitted), `state` is `new` for a reason of the last 24 hours that never was before, `grows` for one with far more jobs than in the week before, and `returned` for one that was resolved before. Jobs have one reason if their `stop_reason` and the first line of their error are the same, whatever the numbers and ids in it. `days`: only jobs that failed since then.",
    ],
    query: QuerySchema,
    answer: "Reasons, the most frequent first",
    schema: FailuresSchema,
    seen: ({ query }, seen) => failuresResource(seen, withoutEmpty(query).days),
  });
  return [...shown, ...markRoutes(parts)];
}

function failuresResource(parts: SeenParts, days: string | undefined): Resource {
  const now = parts.clock();
  const since = days === undefined ? undefined : now.getTime() - Number(days) * DAY;
  const from = since ?? now.getTime() - 30 * DAY;
  const read = async () => {
    const marks = await parts.attention.marks.read();
    const [failures, trendOf, trends] = await Promise.all([
      readFailures(parts, { since }),
      readOverTime(parts.jobs, { since: from, now: now.getTime() }),
      readTrends(parts.jobs, now.getTime(), marks),
    ]);
    const states = new Map(trends.map(({ failure, state }) => [failure, state] as const));
    const items = failures.items.map((group) => {
      const { id: _, ...mark } = marks.get(group.failure) ?? { id: "" };
      return {
        ...group,
        trend: trendOf(group.failure),
        state: states.get(group.failure) ?? null,
        // When a job failed last that the caller does not see is not for it.
        mark: "state" in mark ? { ...mark, until: parts.caller.sight ? null : mark.until } : null,
      };
    });
    return { ...failures, items };
  };
  const time = since === undefined ? "30 days" : PERIODS.find(([value]) => value === days)![1];
  return {
    page: "failures",
    fragment: "failures",
    json: read,
    state: async () => {
      const { items, total, reasons } = await read();
      const rest = reasons - items.length;
      return {
        summary: `${countOf(total, "failed job")}, ${countOf(reasons, "reason")}.`,
        api: withQuery("/admin/api/failures", { days }),
        periods: PERIODS.map(([value, label]) => ({
          label,
          href: withQuery("/admin/failures", { days: value }),
          current: value === (days ?? ""),
        })),
        sections: toSections(
          items.map((group) => ({
            ...toGroupView(group, now, since),
            spark: renderSpark(group.trend, time),
            state: group.state === null ? "" : STATES[group.state],
            ...toMarkView(group, now),
          })),
        ),
        isAll: days === undefined,
        note: rest > 0 ? `${countOf(rest, "rarer reason")} not shown.` : "",
      };
    },
  };
}

const STATES = { new: "New", grows: "Grows", returned: "Came back" } as const;
const MARKS = { resolved: "Resolved", muted: "Muted" } as const;

/** What a person has decided about a reason, and what they can decide now. */
function toMarkView(group: FailureGroup & { readonly mark: Omit<FailureMark, "id"> | null }, now: Date) {
  const { failure, mark, last_at } = group;
  const isQuiet = mark !== null && !isHeard({ id: failure, ...mark }, last_at);
  const { state, by, at } = mark ?? {};
  return {
    isQuiet,
    markHref: `/admin/failures/${failure}/mark`,
    until: last_at ?? "",
    mark: isQuiet && state ? html`${MARKS[state]} by <bdi>${by}</bdi> ${timePiece(at, now)}`.toString() : "",
    offers: isQuiet
      ? [{ state: "open", label: "Open again" }]
      : [
          { state: "resolved", label: "Resolve" },
          { state: "muted", label: "Mute" },
        ],
  };
}

/** What people want to hear of, and below it, folded, what they do not. */
function toSections<T extends { readonly isQuiet: boolean }>(groups: readonly T[]) {
  const quiet = groups.filter(({ isQuiet }) => isQuiet);
  return [
    { label: "", groups: groups.filter(({ isQuiet }) => !isQuiet) },
    { label: `${countOf(quiet.length, "reason")} resolved or muted`, groups: quiet },
  ].filter((section) => section.groups.length > 0);
}

function toGroupView(group: FailureGroup, now: Date, since: number | undefined) {
  const { failure, error, stop_reason, limit, count, first_at, last_at, agents } = group;
  const query = {
    status: "failed",
    failure,
    ended_since: since === undefined ? undefined : new Date(since).toISOString(),
  };
  return {
    reason: error || (stop_reason ? toLabel(stop_reason) : "No error was recorded"),
    count: formatCount(count),
    jobs: countOf(count, "job"),
    first: timePiece(first_at, now).toString(),
    last: timePiece(last_at, now).toString(),
    agents: agents.map(({ agent, version }) => ({
      label: version === null ? agent : `${agent} ${version}`,
      href: pathTo("agents", agent),
    })),
    href: withQuery("/admin/jobs", query),
    query: new URLSearchParams(withQuery("", query).slice(1)).toString(),
    limit: isLimit(stop_reason)
      ? { ...LIMITS[stop_reason], name: `limit.${stop_reason}`, value: limit === null ? "" : limit * 2 }
      : undefined,
  };
}
