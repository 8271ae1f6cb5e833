import type { EntityStatus } from "./entity-status.ts";

/** What a status set by an operator does to a job. */
export type JobOverride =
  | "goes on"
  | "is taken up"
  | "is retried"
  | "is parked"
  | "is reopened"
  | "is stopped"
  | "ends"
  | "is corrected";

type Overrides<Effect> = Readonly<Record<EntityStatus, Readonly<Record<EntityStatus, Effect>>>>;

/** The statuses in which nothing of a job or case is over yet, but for `cancelling`. */
const OPEN = {
  stopped: "is parked",
  in_progress: "goes on",
  awaiting: "goes on",
  cancelling: "is stopped",
  completed: "ends",
  failed: "ends",
  cancelled: "ends",
} as const;

const ENDED = {
  stopped: "is reopened",
  in_progress: "is retried",
  awaiting: "is retried",
  cancelling: "is stopped",
  completed: "is corrected",
  failed: "is corrected",
  cancelled: "is corrected",
} as const;

/** What becomes of a job: by the status that it has, then by the one that it is given. */
export const JOB_OVERRIDES: Overrides<JobOverride> = {
  stopped: OPEN,
  in_progress: OPEN,
  awaiting: OPEN,
  cancelling: { ...OPEN, in_progress: "is taken up", awaiting: "is taken up" },
  completed: ENDED,
  failed: ENDED,
  cancelled: ENDED,
};

/** The same in words. */
export const JOB_OVERRIDE_WORDS: Readonly<Record<JobOverride, string>> = {
  "goes on":
    "The run that it has goes on. A job that waits for its turn waits on; one without a run is taken up where it was.",
  "is taken up": "The run that was told to end is left behind; the job is taken up where it was.",
  "is retried":
    "It is taken up from its last good step, like a retry: the cases that had ended with it are open again.",
  "is parked":
    "Its run ends now, its cases stay as they are, and it leaves the queue. It stays so, over restarts too, until it is given another status.",
  "is reopened": "The same as a retry, but it stays parked until it is set to `in_progress`.",
  "is stopped":
    "It is asked to stop: its signal fires, `job_stop` runs, and it is `cancelled` when its run has ended.",
  ends: "Its run ends now and its open cases with it; nothing that the handler still does is stored.",
  "is corrected": "Nothing but its status, error and reason changes.",
};

/** What a status set by an operator does to a case. */
export type CaseOverride = "is marked" | "keeps its question" | "ends" | "is reopened" | "is corrected";

const OPEN_CASE = {
  stopped: "is marked",
  in_progress: "is marked",
  awaiting: "keeps its question",
  cancelling: "is marked",
  completed: "ends",
  failed: "ends",
  cancelled: "ends",
} as const;

const ENDED_CASE = {
  stopped: "is reopened",
  in_progress: "is reopened",
  awaiting: "is reopened",
  cancelling: "is reopened",
  completed: "is corrected",
  failed: "is corrected",
  cancelled: "is corrected",
} as const;

/** What becomes of a case: by the status that it has, then by the one that it is given. */
export const CASE_OVERRIDES: Overrides<CaseOverride> = {
  stopped: OPEN_CASE,
  in_progress: OPEN_CASE,
  awaiting: OPEN_CASE,
  cancelling: OPEN_CASE,
  completed: ENDED_CASE,
  failed: ENDED_CASE,
  cancelled: ENDED_CASE,
};

/** The same in words. */
export const CASE_OVERRIDE_WORDS: Readonly<Record<CaseOverride, string>> = {
  "is marked":
    "Its status is set and its question, if it has one, withdrawn: the `ask` of the handler rejects.",
  "keeps its question": "Its status is set; a question stays open.",
  ends: "It ends and its question is withdrawn. What the handler still tells of it is refused.",
  "is reopened": "It takes updates again. Nothing is run.",
  "is corrected": "Nothing but its status changes.",
};
