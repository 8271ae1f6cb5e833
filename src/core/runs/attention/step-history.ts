import type { Jobs } from "../../entities/jobs.ts";
import { withoutIds } from "../../models/failure.ts";
import type { RunEntry } from "../../models/run-entry.ts";
import type { LogEntry } from "../../store/store.ts";

/** Jobs of an agent whose logs are read, the newest ones. */
const JOBS_READ = 10;
/** Lines that are read of the beginning and of the end of each log. */
const LINES = 100;
/** Fewer calls than these are no history. */
const LEAST = 3;
/** Milliseconds for which what was read is kept. */
const KEPT = 60_000;

/** How long calls took, milliseconds. */
export interface Took {
  readonly median: number;
  readonly longest: number;
}

/** How long the steps of agents took, read from the logs of their last jobs where somebody asks. */
export class StepHistory {
  readonly #known = new Map<string, { readonly at: number; readonly took: Promise<Took | undefined> }>();

  /**
   * How long a step of this name took, whatever the numbers in it, or any step of the agent where `name` is absent; in the
   * agent's last jobs and in the job itself. Nothing where that is not known.
   */
  of(
    jobs: Jobs,
    asked: { readonly jobId: string; readonly agent: string; readonly name?: string; readonly now: number },
  ): Promise<Took | undefined> {
    const { jobId, agent, name, now } = asked;
    const key = JSON.stringify([jobId, agent, name]);
    const known = this.#known.get(key);
    if (known && now >= known.at && now - known.at < KEPT) return known.took;
    for (const [one, { at }] of this.#known) if (now < at || now - at >= KEPT) this.#known.delete(one);
    const took = read(jobs, asked);
    this.#known.set(key, { at: now, took });
    took.catch(() => this.#known.delete(key));
    return took;
  }
}

async function read(
  jobs: Jobs,
  { jobId, agent, name }: { readonly jobId: string; readonly agent: string; readonly name?: string },
): Promise<Took | undefined> {
  const where = { agent_name: agent, finished_at: { gte: 0 } };
  const ids = await jobs.ids({ where, sort: "-finished_at", limit: JOBS_READ });
  const logs = await Promise.all(
    [jobId, ...ids].map((id) => jobs.logEnds(id, { first: LINES, last: LINES }).catch(() => [])),
  );
  const wanted = name === undefined ? undefined : withoutIds(name);
  const times = logs.flat().flatMap((line) => timeOf(line, wanted));
  if (times.length < LEAST) return undefined;
  times.sort((a, b) => a - b);
  return { median: times[Math.floor(times.length / 2)]!, longest: times.at(-1)! };
}

function timeOf({ entry }: LogEntry<RunEntry>, wanted: string | undefined): number[] {
  if (entry.type !== "call" || entry.call !== "step" || entry.error || entry.started_at === undefined)
    return [];
  if (wanted !== undefined && withoutIds(entry.name) !== wanted) return [];
  return [Math.max(0, Date.parse(entry.at) - Date.parse(entry.started_at))];
}
