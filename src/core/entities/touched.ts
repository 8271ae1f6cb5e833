import type { Store } from "../store/store.ts";
import type { Touched } from "./change.ts";
import type { HookName, Hooks } from "./hooks.ts";

/** Topics of the hints about what units have stored. */
const JOB = "job";
const CASE = "case";
/** Milliseconds between two checks of everything that somebody waits for: it is enough where all hints get lost. */
const POLL = 2000;

/** An announcement of a stored unit. */
interface Announced {
  readonly name: HookName;
  readonly payload: unknown;
}

/** Tells the other instances which jobs and cases a unit has changed. */
export function tellOthers({ hints }: Store, announced: readonly Announced[]): void {
  const jobs = new Set<string>();
  const cases = new Set<string>();
  for (const { name, payload } of announced) {
    const {
      job,
      case: item,
      job_id,
    } = payload as {
      job?: { id: string };
      case?: { id: string; job_id: string };
      job_id?: string;
    };
    if (name === "run:entry") jobs.add(job_id!);
    if (job) jobs.add(job.id);
    if (item) {
      cases.add(item.id);
      jobs.add(item.job_id);
    }
  }
  if (jobs.size > 0) hints.tell(JOB, [...jobs]);
  if (cases.size > 0) hints.tell(CASE, [...cases]);
}

/** Makes hints of other instances a hook of this one; the result ends it. Its own changes come back, too. */
export function hearOthers(store: Store, hooks: Hooks, { poll = POLL } = {}): () => void {
  const touch = (touched: Touched) => hooks.emit("jobs:touched", touched);
  const all = () => touch({ jobs: "all", cases: [] });
  const stop = store.hints.on((hint) => {
    if (hint === "all") all();
    else if (hint.topic === JOB) touch({ jobs: hint.ids, cases: [] });
    else if (hint.topic === CASE) touch({ jobs: [], cases: hint.ids });
  });
  const timer = setInterval(all, poll).unref();
  return () => {
    clearInterval(timer);
    stop();
  };
}
