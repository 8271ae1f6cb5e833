import { nameOf } from "../../../core/audit/caller.ts";
import { countOf } from "../../../core/base/count-of.ts";
import { shownLineOf } from "../../../core/models/failure.ts";
import { textOfUndo } from "../deleted/deletion-text.ts";
import type { SeenParts } from "../parts.ts";
import { withQuery } from "../query.ts";
import { formatCost, formatCount, toLabel } from "../views/format.ts";
import { entityPiece, pathTo, statusPiece } from "../views/pieces.ts";
import type { BulkAction } from "./bulk-table.ts";
import type { BulkOperation } from "./operations.ts";

const SAMPLE = 20;

/** An operation as the API returns it. */
export function toBulkData(operation: BulkOperation) {
  const { ids, leftOut, createdAt, by, alive: _, ...rest } = operation;
  return {
    ...rest,
    by: nameOf(by),
    count: ids.length,
    left_out: leftOut,
    created_at: createdAt,
    sample: ids.slice(0, SAMPLE),
  };
}

/** An operation as its page shows it. */
export async function toBulkView(
  parts: SeenParts,
  operation: BulkOperation,
): Promise<Record<string, unknown>> {
  const { id, kind, action, ids, state, done, leftOut, cost } = operation;
  const failures = new Map(Object.entries(operation.failures));
  const noun = kind === "jobs" ? "job" : "case";
  const table = kind === "jobs" ? parts.jobs : parts.cases;
  const shown = failures.size > 0 ? [...failures.keys()] : [...ids];
  const sampleIds = shown.slice(0, SAMPLE);
  const { items } = await table.list({ where: { id: sampleIds }, limit: SAMPLE });
  const found = new Map(items.map((entity) => [entity.id, entity]));
  const outcome = await readOutcome(parts, operation);
  const what = countOf(ids.length, noun);
  const path = `/admin/bulk/${id}`;
  return {
    bulk: {
      title: TITLES[state](VERBS[action], what),
      text: state === "preview" ? consequenceOf(parts, operation) : "",
      back: `/admin/${kind}`,
      backLabel: kind === "jobs" ? "Jobs" : "Cases",
      api: `/admin/api/bulk/${id}`,
      every: state === "running" ? 1 : outcome?.isOpen ? 3 : 0,
      outcome: outcome?.text ?? "",
      reasons: outcome?.reasons ?? [],
      canRun: state === "preview" && ids.length > 0,
      canAbort: state === "running",
      ended: state === "done" || state === "aborted" || ids.length === 0,
      runAction: `${path}/run`,
      abortAction: `${path}/abort`,
      undoAction: canUndo(parts, operation) ? `${path}/undo` : "",
      hash: operation.hash,
      style: action === "delete" ? "danger" : "",
      confirmLabel: `${VERBS[action]} ${what}`,
      total: Math.max(1, ids.length),
      finished: done,
      progress:
        state === "preview"
          ? ""
          : `${formatCount(done)} of ${formatCount(ids.length)} done${failures.size > 0 ? `, ${formatCount(failures.size)} failed` : ""}${state === "aborted" ? ", then aborted" : ""}.`,
      sampleTitle:
        failures.size > 0
          ? "Not changed"
          : ids.length > SAMPLE
            ? `The first ${SAMPLE}`
            : ids.length === 1
              ? what
              : `All ${what}`,
      sample: sampleIds.map((one) => {
        const entity = found.get(one);
        return {
          id: one,
          name: entity?.name ?? one,
          href: pathTo(kind, one),
          status: (entity ? entityPiece(entity) : statusPiece("gone", "Gone")).toString(),
          note: failures.get(one) ?? "",
        };
      }),
      facts: [
        { name: "Selected", value: what },
        {
          name: "Skipped",
          value: leftOut === 0 ? "none" : `${countOf(leftOut, noun)}: ${LEFT_OUT[action]}`,
        },
        ...Object.entries(operation.limits ?? {}).map(([name, value]) => ({
          name: toLabel(name),
          value: name === "max_cost" ? formatCost(value, parts.options.currency) : formatCount(value),
        })),
        { name: "Cost so far", value: formatCost(cost, parts.options.currency) },
        { name: "Selected at", value: `${operation.createdAt.slice(0, 19).replace("T", " ")} UTC` },
        { name: "By", value: nameOf(operation.by) },
      ],
    },
  };
}

/** Reasons that the outcome of a retry names. */
const MOST_REASONS = 5;

const RUNS_AGAIN: readonly BulkAction[] = ["retry", "restart", "resume"];

/** The status of the jobs of a retry, once it is done. */
async function readOutcome(
  { jobs }: SeenParts,
  { action, kind, ids, state, failures }: BulkOperation,
): Promise<{ text: string; isOpen: boolean; reasons: { text: string; href: string }[] } | undefined> {
  if (kind !== "jobs" || !RUNS_AGAIN.includes(action) || state !== "done") return undefined;
  const id = ids.filter((one) => !Object.hasOwn(failures, one));
  if (id.length === 0) return undefined;
  const [byStatus, byReason] = await Promise.all([
    jobs.countBy("status", { where: { id } }),
    jobs.countBy("failure", { where: { id, status: "failed" } }),
  ]);
  const { completed = 0, failed = 0 } = byStatus;
  const ended = completed + failed + (byStatus.cancelled ?? 0);
  const open = Object.values(byStatus).reduce((sum, count) => sum + count, 0) - ended;
  const counts = Object.entries(byReason).sort(([, a], [, b]) => b - a);
  const reasons = await Promise.all(
    counts.slice(0, MOST_REASONS).map(async ([failure, count]) => {
      const { items } = await jobs.list({ where: { failure, id }, sort: "-created_at", limit: 1 });
      const error = shownLineOf(items[0]?.error ?? null);
      return {
        text: `${formatCount(count)} × ${error || toLabel(items[0]?.stop_reason ?? "error")}`,
        href: withQuery("/admin/jobs", { status: "failed", failure }),
      };
    }),
  );
  const parts = [
    `${formatCount(completed)} completed`,
    `${formatCount(failed)} failed again`,
    ...(open > 0 ? [`${formatCount(open)} not ended yet`] : []),
  ];
  return { text: `${countOf(id.length, "job")} retried: ${parts.join(", ")}.`, isOpen: open > 0, reasons };
}

/** Whether what it has deleted can be restored. */
export function canUndo(
  { service }: Pick<SeenParts, "service">,
  { action, state, done }: BulkOperation,
): boolean {
  const isOver = state === "done" || state === "aborted";
  return action === "delete" && isOver && done > 0 && service.deletedRetention !== 0;
}

function consequenceOf(parts: SeenParts, { action }: BulkOperation): string {
  if (action !== "delete") return CONSEQUENCES[action];
  return `${CONSEQUENCES.delete} ${textOfUndo(parts)}`;
}

const VERBS: Readonly<Record<BulkAction, string>> = {
  stop: "Stop",
  retry: "Retry",
  continue: "Continue",
  restart: "Restart",
  resume: "Resume",
  delete: "Delete",
  restore: "Restore",
};

const TITLES = {
  preview: (verb: string, what: string) => `${verb} ${what}?`,
  running: (verb: string, what: string) => `${verb}: ${what}`,
  done: (verb: string, what: string) => `${verb}: ${what}, done`,
  aborted: (verb: string, what: string) => `${verb}: ${what}, aborted`,
} as const;

const CONSEQUENCES: Readonly<Record<BulkAction, string>> = {
  stop: "Each will be asked to stop; its results so far are kept. The selection is fixed, whatever changes in the meantime.",
  retry:
    "Each continues from its last successful step. The selection is fixed, whatever changes in the meantime.",
  continue:
    "Each resumes with the current code. What was recorded after the point where it no longer matches is done again; answers count. The selection is fixed, whatever changes in the meantime.",
  restart: "Everything is done, and paid for, once more. Exactly these, whatever changes in the meantime.",
  resume:
    "Each continues from its last successful step, with the raised limits. The selection is fixed, whatever changes in the meantime.",
  delete: "Each is deleted with everything that belongs to it. The selection is fixed.",
  restore: "Each returns to the list of jobs as it was.",
};

const LEFT_OUT: Readonly<Record<BulkAction, string>> = {
  stop: "already ended, or over the limit of one operation",
  retry:
    "neither failed, cancelled nor in a crash loop, or ended at a limit that a retry would meet again (raise it on the page Failures), or over the limit of one operation",
  continue: "not held, or over the limit of one operation",
  resume:
    "no limit that was raised ended them, or they have used as much already, or over the limit of one operation",
  restart: "neither held, failed nor cancelled, or over the limit of one operation",
  delete: "over the limit of one operation",
  restore: "no longer deleted",
};
