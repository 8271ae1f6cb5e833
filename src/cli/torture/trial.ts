import type { Case } from "../../core/models/case.ts";
import { isTerminal } from "../../core/models/entity-status.ts";
import type { Job } from "../../core/models/job.ts";
import type { Question } from "../../core/models/question.ts";
import type { RunEntry } from "../../core/models/run-entry.ts";
import { makeAnswer } from "./answer.ts";

/** An agent and the inputs that its jobs get. */
export interface Scenario {
  readonly slug: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

/** A job of a test, and what the service has acknowledged about it. */
export class TrialJob {
  readonly id: string;
  readonly scenario: Scenario;
  readonly body: unknown;
  isAcknowledged = false;
  isOver = false;
  /** First round in which its questions are answered. */
  readonly answerFrom: number = 0;
  /** Lines of its log that were seen, by number. */
  readonly seen = new Map<string, string>();
  readonly answers = new Map<string, { readonly caseId: string; readonly answer: string }>();

  constructor(id: string, scenario: Scenario) {
    this.id = id;
    this.scenario = scenario;
    this.body = {
      job_fields: scenario.fields,
      job_context: {
        workspace_id: "torture",
        job_id: id,
        started_by: "svc torture",
        started_at: "2026-01-31T09:30:00.000Z",
        mission_id: "torture",
        mission_name: "Torture",
      },
    };
  }

  /** How it is called in the verdict. */
  get label(): string {
    return `job ${this.id} (${this.scenario.slug})`;
  }

  answerTo(question: Question): Record<string, unknown> {
    return makeAnswer(question, this.id);
  }

  answered({ id, question }: Case, answer: Record<string, unknown>): void {
    this.answers.set(`${id}/${question?.id}`, { caseId: id, answer: JSON.stringify(answer) });
  }
}

/** A finished job, with its cases and its log. */
export interface Outcome {
  readonly job: Job;
  readonly cases: readonly Case[];
  /** By the number of the line. */
  readonly log: ReadonlyMap<string, RunEntry>;
}

export interface Findings {
  readonly lost: string[];
  readonly doubled: string[];
  /** What belongs to something else. */
  readonly swapped: string[];
  readonly wrong: string[];
  /** Jobs with an expired question: they may end differently. */
  readonly expired: string[];
}

/** Compares a finished job with everything that was acknowledged of it. */
export function checkAcknowledged(job: TrialJob, outcome: Outcome, findings: Findings): void {
  const { label: name } = job;
  for (const [seq, text] of job.seen) {
    if (JSON.stringify(outcome.log.get(seq)) !== text)
      findings.lost.push(`${name}: line ${seq} of its log: ${text}`);
  }
  const entries = [...outcome.log.values()];
  for (const [place, { caseId, answer }] of job.answers) {
    const kept = entries.filter((one) => isAnswer(one, place) && JSON.stringify(one.answer) === answer);
    if (kept.length === 0) findings.lost.push(`${name}: the answer to case ${caseId}`);
    if (kept.length > 1) findings.doubled.push(`${name}: the answer to case ${caseId}`);
  }
}

/** Checks what must hold for each job that has ended. */
export function checkRecord(name: string, { job, cases, log }: Outcome, findings: Findings): void {
  for (const call of repeatedCalls([...log.values()])) findings.doubled.push(`${name}: ${call}`);
  for (const { id, updates, update_count } of cases) {
    const before = update_count - updates.length;
    const isCounted = updates.every(({ index }, at) => index === before + at + 1);
    if (!isCounted) findings.wrong.push(`${name}: the updates of case ${id} have gaps or repeats`);
  }
  if (!isTerminal(job.status)) findings.wrong.push(`${name}: has not ended, its status is ${job.status}`);
}

/** Nobody can answer while the service is down, and a deadline keeps running. */
export function isExpired(entry: RunEntry): boolean {
  if (entry.type === "answer") return entry.by === "deadline";
  return entry.type === "call" && entry.call === "ask" && entry.error?.name === "QuestionExpiredError";
}

function isAnswer(entry: RunEntry, place: string): entry is Extract<RunEntry, { type: "answer" }> {
  return entry.type === "answer" && `${entry.case_id}/${entry.question_id}` === place;
}

/** Calls that are recorded twice: a finished step has run again. */
function repeatedCalls(entries: readonly RunEntry[]): string[] {
  const afresh = entries.findLastIndex((one) => one.type === "mark" && one.mark === "restarted");
  const seen = new Set<string>();
  const repeated: string[] = [];
  for (const entry of entries.slice(afresh + 1)) {
    if (entry.type !== "call") continue;
    const place = entry.call === "open_case" ? entry.name : entry.position;
    const key = `${entry.call === "open_case" ? "case" : (entry.case_id ?? "")}/${place}`;
    if (seen.has(key)) repeated.push(`${entry.call} "${entry.name}" is recorded twice`);
    seen.add(key);
  }
  return repeated;
}
