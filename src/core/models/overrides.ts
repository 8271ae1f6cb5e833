import type { EntityStatus } from "./entity-status.ts";

/** What a status set by an operator does to a job. */
export type JobOverride =
  | "continues"
  | "is resumed"
  | "is retried"
  | "is parked"
  | "is reopened"
  | "is stopped"
  | "ends"
  | "is corrected";

type Overrides<Effect> = Readonly<Record<EntityStatus, Readonly<Record<EntityStatus, Effect>>>>;

/** The statuses of a job or case that has not ended, except `cancelling`. */
const OPEN = {
  stopped: "is parked",
  in_progress: "continues",
  awaiting: "continues",
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

/** The effect on a job: by its current status, then by the new one. */
export const JOB_OVERRIDES: Overrides<JobOverride> = {
  stopped: OPEN,
  in_progress: OPEN,
  awaiting: OPEN,
  cancelling: { ...OPEN, in_progress: "is resumed", awaiting: "is resumed" },
  completed: ENDED,
  failed: ENDED,
  cancelled: ENDED,
};

/** The same in words. */
export const JOB_OVERRIDE_WORDS: Readonly<Record<JobOverride, string>> = {
  continues:
    "Its current run continues. A queued job stays queued; a job without a run resumes where it was.",
  "is resumed": "The run that was asked to end is abandoned; the job resumes where it was.",
  "is retried":
    "It resumes from its last successful step, like a retry: the cases that ended with it are open again.",
  "is parked":
    "Its run ends now, its cases stay as they are, and it leaves the queue. It stays parked, also after restarts, until its status is set again.",
  "is reopened": "The same as a retry, but it stays parked until it is set to `in_progress`.",
  "is stopped":
    "It is asked to stop: its signal fires, `job_stop` runs, and it is `cancelled` when its run has ended.",
  ends: "Its run and its open cases end now; nothing that the handler still does is stored.",
  "is corrected": "Only its status, error and reason change.",
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

/** The effect on a case: by its current status, then by the new one. */
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
  "is marked": "Its status is set and its question, if any, is withdrawn: the handler's `ask` rejects.",
  "keeps its question": "Its status is set; a question stays open.",
  ends: "It ends and its question is withdrawn. Later updates from the handler are refused.",
  "is reopened": "It accepts updates again. Nothing runs.",
  "is corrected": "Only its status changes.",
};
