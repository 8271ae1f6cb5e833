import type { Findings, Outcome } from "../../../../src/cli/torture/trial.ts";
import type { Held } from "../../../../src/core/models/job.ts";
import type { RunEntry } from "../../../../src/core/models/run-entry.ts";
import type { Effect } from "./agents.ts";
import type { MixJob } from "./mix-job.ts";
import { type Plan, type PlanKind, pairPlan, pairVersions, planOf } from "./plans.ts";

interface PlannedResult {
  readonly tag: string;
  readonly deploy: number;
  readonly amount: number;
  readonly branch: boolean | null;
  readonly did: Readonly<Record<string, Effect>>;
  readonly version?: string;
}

/** The deploys that ran between two times, ISO 8601. */
export type DeploysBetween = (from: string, to: string) => ReadonlySet<number>;

/** A finished job that follows a plan has done all of the plan of the code that finished it. */
export function checkPlanned(
  job: MixJob,
  { job: found, log }: Outcome,
  { findings, deploysBetween }: { readonly findings: Findings; readonly deploysBetween: DeploysBetween },
): void {
  const { label } = job;
  if (found.status !== "completed") {
    findings.wrong.push(`${label} is ${found.status}, without kills it is completed: ${found.error}`);
    return;
  }
  const result = found.result as PlannedResult;
  const wrong = (what: string) => void findings.wrong.push(`${label}: ${what}`);
  if (result.tag !== job.id) findings.swapped.push(`${label}: its result is that of ${result.tag}`);
  if (result.amount !== job.amount)
    findings.swapped.push(`${label}: was answered ${job.amount}, and got ${result.amount}`);
  const plan = job.kind === "pair" ? pairPlan(result.version!) : planOf(job.kind as PlanKind, result.deploy);
  const steps = plan.flatMap((line) => {
    const [what, name] = line.split(" ");
    return what === "step" || (what === "branch" && result.branch) ? [name] : [];
  });
  const did = Object.keys(result.did);
  if (did.join() !== steps.join()) wrong(`did ${did.join(", ")}; its code does ${steps.join(", ")}`);
  const entries = [...log.values()];
  for (const [name, effect] of Object.entries(result.did)) {
    const recorded = entries.find(
      (one) => one.type === "call" && one.call === "step" && one.name === name && same(one.result, effect),
    );
    if (!recorded) findings.swapped.push(`${label}: step "${name}" gave what is not in its record`);
  }
  const startedBy = deploysBetween(found.created_at, found.created_at);
  if (job.kind === "pair") checkVersion({ label, startedBy }, found.agent_version, { result, findings });
  if (job.kind === "renamed" && recordedNames(entries).has("uno") && recordedNames(entries).has("one"))
    wrong(`its record has step "one" and "uno": it must have been held`);
  if (job.kind === "branch") checkBranch({ label, startedBy }, entries, { result, findings, deploysBetween });
}

/** A job, and the deploys that may have started it. */
interface Started {
  readonly label: string;
  readonly startedBy: ReadonlySet<number>;
}

function checkVersion(
  { label, startedBy }: Started,
  version: string | null,
  { result, findings }: { readonly result: PlannedResult; readonly findings: Findings },
): void {
  const newest = new Set([...startedBy].map((deploy) => pairVersions(deploy).at(-1)));
  if (version !== result.version || !newest.has(result.version))
    findings.swapped.push(
      `${label}: belongs to version ${version}, and version ${result.version} has run it; it was started with ${[...newest].join(" or ")}`,
    );
}

/** A branch is answered once, and is true for a job that no other code has run before. */
function checkBranch(
  { label, startedBy }: Started,
  entries: readonly RunEntry[],
  {
    result,
    findings,
    deploysBetween,
  }: { readonly result: PlannedResult; readonly findings: Findings; readonly deploysBetween: DeploysBetween },
): void {
  const answers = entries.filter((one) => one.type === "mark" && one.mark === "changed");
  if (answers.length > 1) findings.doubled.push(`${label}: job.changed is recorded ${answers.length} times`);
  const [answer] = answers as Extract<RunEntry, { type: "mark" }>[];
  if (result.branch !== null && answer?.is !== result.branch)
    findings.wrong.push(
      `${label}: job.changed was ${result.branch}, and ${answer?.is ?? "nothing"} is recorded`,
    );
  if (answer?.is !== false) return;
  const hasBranch = (deploy: number) => planOf("branch", deploy).includes("branch audit");
  const deploys = new Set([...startedBy, ...deploysBetween(entries[0]!.at, answer.at)]);
  if ([...deploys].every(hasBranch))
    findings.wrong.push(`${label}: job.changed was false, although all code that ran it has the branch`);
}

/** Why a job must not be held under the code that holds it; undefined where it does not fit. */
export function whyNotHeld(
  plan: Plan | undefined,
  held: Pick<Held, "expected" | "found">,
  log: readonly RunEntry[],
): string | undefined {
  if (!plan) return "its code makes the same calls in each deploy";
  const calls = callsOf(plan);
  const recorded = recordedCalls(log);
  const [expected, found] = [toCall(held.expected), held.found === null ? undefined : toCall(held.found)];
  if (!recorded.includes(expected)) return `${held.expected} is not in its record`;
  const at = calls.indexOf(expected);
  if (at < 0) return undefined;
  const isAddedBefore =
    found !== undefined && !recorded.includes(found) && calls.includes(found) && calls.indexOf(found) < at;
  return isAddedBefore ? undefined : `its code makes ${held.expected} too, and the record has nothing else`;
}

/**
 * Whether a record is the beginning of what a plan does: then it fits, beyond doubt. Where other code has asked a
 * question, new calls may have come before it since.
 */
export function isBeginning(plan: Plan | undefined, log: readonly RunEntry[]): boolean {
  if (!plan) return true;
  const isQuestion = (call: string) => call.startsWith("ask ");
  const [calls, recorded] = [callsOf(plan), recordedCalls(log)];
  const others = calls.filter((call) => !isQuestion(call));
  return (
    recorded.filter(isQuestion).every((call) => calls.includes(call)) &&
    recorded.filter((call) => !isQuestion(call)).every((call, at) => others[at] === call)
  );
}

function callsOf(plan: Plan): string[] {
  const calls = plan.map((line) => {
    const [what, name] = line.split(" ");
    return what === "branch" ? `step ${name}` : what === "sleep" ? "sleep sleep" : `${what} ${name}`;
  });
  return ["open_case", ...calls, "close"];
}

function recordedCalls(log: readonly RunEntry[]): string[] {
  const names = log.flatMap((entry) => {
    if (entry.type === "call" || entry.type === "begun")
      return [toCall(`${entry.call} "${entry.key ?? entry.name}"`)];
    return [];
  });
  return [...new Set(names)];
}

function recordedNames(entries: readonly RunEntry[]): ReadonlySet<string> {
  return new Set(entries.flatMap((one) => (one.type === "call" && one.call === "step" ? [one.name] : [])));
}

/** `step "pay" of case "x"` is `step pay`; a job has one case. */
function toCall(label: string): string {
  const [, kind, name] = /^(\w+) "([^"]*)"/.exec(label)!;
  return kind === "open_case" || kind === "close" ? kind : `${kind} ${name}`;
}

function same(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
