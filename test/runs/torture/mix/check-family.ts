import type { Findings, Outcome } from "../../../../src/cli/torture/trial.ts";
import type { Job } from "../../../../src/core/models/job.ts";
import type { RunEntry } from "../../../../src/core/models/run-entry.ts";
import type { MixJob } from "./mix-job.ts";
import { childTags } from "./plans.ts";

interface FamilyResult {
  readonly tag: string;
  readonly children: readonly FamilyResult[];
  readonly failed: string | null;
}

/** A finished parent has the results of its own children, and of theirs. */
export function checkFamily(job: MixJob, { job: found }: Outcome, findings: Findings): void {
  const { label } = job;
  if (found.status === "completed" && !job.mustBeCancelled) {
    const { depth } = job.scenario.fields as { readonly depth: number };
    checkResults({ label, tag: job.id, depth }, found.result as FamilyResult, findings);
    return;
  }
  if (found.status === "cancelled" && job.isStopSent) return;
  findings.wrong.push(`${label} is ${found.status}: ${found.error}`);
}

function checkResults(
  { label, tag, depth }: { readonly label: string; readonly tag: string; readonly depth: number },
  { tag: from, children, failed }: FamilyResult,
  findings: Findings,
): void {
  if (from !== tag) {
    findings.swapped.push(`${label}: got the result of ${from} for that of ${tag}`);
    return;
  }
  const { kept, failing } = childTags(tag, depth);
  if (failing !== undefined && !failed?.includes(`${failing} fails`))
    findings.swapped.push(`${label}: ${tag} got "${failed}" from ${failing}`);
  if (children.length !== kept.length)
    findings.lost.push(`${label}: ${tag} got ${children.length} results of ${kept.length} children`);
  for (const [at, one] of children.entries())
    checkResults({ label, tag: kept[at] ?? "no child", depth: depth - 1 }, one, findings);
}

/** A job with its log, and how it is called in the verdict. */
export interface Member {
  readonly label: string;
  readonly outcome: Outcome;
}

/** Each child belongs to one recorded call of its parent, which got the result that the child has. */
export function checkChildren(members: ReadonlyMap<string, Member>, findings: Findings): number {
  const started = new Map<string, string>();
  for (const [id, { label, outcome }] of members) {
    for (const entry of outcome.log.values()) {
      if (entry.type !== "call") continue;
      if (entry.call === "start") checkStart(id, { label, entry, started }, { members, findings });
      if (entry.call === "child") checkEnd(label, entry, { members, findings });
    }
  }
  let children = 0;
  for (const [id, { label, outcome }] of members) {
    const { parent } = outcome.job;
    if (!parent) continue;
    children++;
    if (started.get(id) !== parent.job_id)
      findings.doubled.push(`${label}: no recorded call of its parent ${parent.job_id} has started it`);
    const of = members.get(parent.job_id)?.outcome.job;
    if (of) checkEnded(label, { child: outcome.job, parent: of }, findings);
  }
  return children;
}

interface Known {
  readonly members: ReadonlyMap<string, Member>;
  readonly findings: Findings;
}

function checkStart(
  parentId: string,
  {
    label,
    entry,
    started,
  }: {
    readonly label: string;
    readonly entry: Extract<RunEntry, { type: "call" }>;
    readonly started: Map<string, string>;
  },
  { members, findings }: Known,
): void {
  const id = entry.result as string;
  const child = members.get(id)?.outcome.job;
  const what = `${label}: child ${entry.key}`;
  if (!child) findings.lost.push(`${what} (${id}) does not exist`);
  else if (child.parent?.job_id !== parentId || child.job_fields?.tag !== entry.key)
    findings.swapped.push(`${what} is ${child.job_fields?.tag} of ${child.parent?.job_id}`);
  if (started.has(id)) findings.doubled.push(`${what} (${id}) is recorded twice`);
  started.set(id, parentId);
}

function checkEnd(
  label: string,
  entry: Extract<RunEntry, { type: "call" }>,
  { members, findings }: Known,
): void {
  const child = members.get(entry.key!)?.outcome.job;
  if (!child) return;
  const got = entry.error ? entry.error.status : "completed";
  const isSame = entry.error !== undefined || JSON.stringify(entry.result) === JSON.stringify(child.result);
  if (got !== child.status || !isSame)
    findings.swapped.push(
      `${label}: has got from child ${child.job_fields?.tag} ${got} ${JSON.stringify(entry.result)}; that is ${child.status} ${JSON.stringify(child.result)}`,
    );
}

/** A child that is not detached ends with its parent; any other one ends by itself. */
function checkEnded(
  label: string,
  { child, parent }: { readonly child: Job; readonly parent: Job },
  findings: Findings,
): void {
  const isFailing = String(child.job_fields?.tag).endsWith(".failing");
  const own = isFailing ? "failed" : "completed";
  const isStopped = parent.status === "cancelled" && !child.parent?.detached;
  if (child.status === own || (isStopped && child.status === "cancelled")) return;
  const of = `of a parent that is ${parent.status}`;
  findings.wrong.push(`${label} ${of} is ${child.status} (${child.stop_reason}): ${child.error}`);
}
