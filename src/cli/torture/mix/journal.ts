import type { RunEntry } from "../../../core/models/run-entry.ts";
import type { Findings, Outcome } from "../trial.ts";
import type { Effect } from "./agents.ts";

/** What the agents really did, over all processes. */
export class Journal {
  /** Numbers of the processes that ran a step, by job and step. */
  readonly #lives = new Map<string, number[]>();
  /** Number of effects. */
  readonly size: number;

  constructor(text: string) {
    const lines = text.split("\n").filter(Boolean);
    this.size = lines.length;
    for (const line of lines) {
      const [life, jobId, call] = line.split("\t");
      const key = `${jobId}/${call}`;
      this.#lives.set(key, [...(this.#lives.get(key) ?? []), Number(life)]);
    }
  }

  /** Each recorded step ran once in the process that recorded it, at most once in those before, and in none after. */
  check(label: string, tag: string, outcome: Outcome, findings: Findings): void {
    for (const entry of outcome.log.values()) {
      if (!isStep(entry) || entry.error) continue;
      const { of, call, life } = entry.result as Effect;
      const what = `${label}: the result of step "${entry.name}"`;
      if (of !== tag || call !== entry.name)
        findings.swapped.push(`${what} is that of step "${call}" of ${of}`);
      const lives = this.#lives.get(`${outcome.job.id}/${entry.name}`) ?? [];
      if (!lives.includes(life))
        findings.wrong.push(`${what} came from process ${life}, which did not run it`);
      const again = lives.filter((one, at) => one > life || lives.indexOf(one) !== at);
      if (again.length > 0)
        findings.doubled.push(
          `${label}: step "${entry.name}", recorded in process ${life}, ran in processes ${lives.join(", ")}`,
        );
    }
  }
}

function isStep(entry: RunEntry): entry is Extract<RunEntry, { type: "call" }> {
  return entry.type === "call" && entry.call === "step";
}
