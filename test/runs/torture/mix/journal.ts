import type { Findings, Outcome } from "../../../../src/cli/torture/trial.ts";
import type { RunEntry } from "../../../../src/core/models/run-entry.ts";
import type { Effect } from "./agents.ts";

/** Milliseconds by which the clock of a database, as a service knows it, may be behind that of the machine. */
const APART = 100;

/** A process that ran a step, and when. */
interface Ran {
  readonly life: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** What the agents really did, over all processes. */
export class Journal {
  /** The processes that ran a step, by job and step, in the order in which they did. */
  readonly #ran = new Map<string, Ran[]>();
  /** Number of effects. */
  readonly size: number;

  constructor(text: string) {
    const lines = text.split("\n").filter(Boolean);
    this.size = lines.length;
    for (const line of lines) {
      const [life, jobId, call, at] = line.split("\t");
      const key = `${jobId}/${call}`;
      const known = this.#ran.get(key) ?? [];
      known.push({ life: Number(life), at: Number(at) });
      this.#ran.set(key, known);
    }
  }

  /**
   * Each recorded step ran in the process that recorded it, in none once it was recorded, and in each process once for
   * each time that it had the job.
   */
  check(label: string, tag: string, outcome: Outcome, findings: Findings): void {
    const entries = [...outcome.log.values()];
    const interruptions = entries.flatMap((one) => (isInterruption(one) ? [Date.parse(one.at)] : []));
    for (const entry of entries) {
      if (!isStep(entry) || entry.error) continue;
      const { of, call, life } = entry.result as Effect;
      const what = `${label}: the result of step "${entry.name}"`;
      if (of !== tag || call !== entry.name)
        findings.swapped.push(`${what} is that of step "${call}" of ${of}`);
      const ran = this.#ran.get(`${outcome.job.id}/${entry.name}`) ?? [];
      if (!ran.some((one) => one.life === life))
        findings.wrong.push(`${what} came from process ${life}, which did not run it`);
      const recordedAt = Date.parse(entry.at);
      const recorded = ran.findLast((one) => one.life === life && one.at <= recordedAt + APART);
      const isAgain = (one: Ran, index: number): boolean => {
        const { life, at } = one;
        const before = ran.slice(0, index).findLast((other) => other.life === life);
        return (
          (at > recordedAt && one !== recorded) ||
          (before !== undefined && !interruptions.some((t) => t >= before.at && t <= at))
        );
      };
      if (ran.some(isAgain)) {
        const when = (time: number) => new Date(time).toISOString();
        const runs = ran.map((one) => `${one.life} (${when(one.at)})`).join(", ");
        findings.doubled.push(
          `${label}: step "${entry.name}", recorded in process ${life} (${entry.at}), ran in processes ${runs}`,
        );
      }
    }
  }
}

/** Between two changes of its owner, one process stores what a job does: what another one stores there comes too late. */
export function checkOwners(label: string, { log }: Outcome, findings: Findings): void {
  let owner: number | undefined;
  for (const entry of log.values()) {
    if (entry.type === "status" || mayChangeOwner(entry)) owner = undefined;
    else if (isStep(entry) && !entry.error) {
      const { life } = entry.result as Effect;
      owner ??= life;
      if (life !== owner)
        findings.wrong.push(
          `${label}: step "${entry.name}" of process ${life} was stored while process ${owner} had the job`,
        );
    }
  }
}

/** Marks with which a job may get another owner. */
const CHANGES: readonly string[] = ["interrupted", "resumed", "restarted", "retried", "continued", "moved"];

/** Whether a job may have another owner from then on. */
export function mayChangeOwner(entry: RunEntry): boolean {
  return entry.type === "mark" && CHANGES.includes(entry.mark);
}

export function isInterruption(entry: RunEntry): boolean {
  return entry.type === "mark" && entry.mark === "interrupted";
}

export function isStep(entry: RunEntry): entry is Extract<RunEntry, { type: "call" }> {
  return entry.type === "call" && entry.call === "step";
}
