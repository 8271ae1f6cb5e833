import type { StoredJob } from "../models/job.ts";
import type { JobResponse } from "../models/job-response.ts";
import type { RunEntry } from "../models/run-entry.ts";

/** What a caller who sees a part may know of other jobs. */
export interface OtherJobs {
  /** Whether the caller sees a job: not one that does not exist. */
  sees(id: string): Promise<boolean>;
  /** Whether a job exists, deleted or not, that the caller does not see. */
  hides(id: string): Promise<boolean>;
}

/**
 * How messages of the service name a parent, a child, or the call that starts, awaits or stops one, also within another
 * text in quotes; and how lists of calls name those.
 */
const NAMED = /\b(?:(?:parent|child|start|stop) \\*"|(?:child|stop):)([A-Za-z0-9_-][A-Za-z0-9._-]{0,199})/gi;
const HIDDEN = "(not visible)";
/** Of a text that names more, none is shown: each is searched for. */
const MOST_NAMED = 100;

/** The same, asked once about each job: for a list, or a log. */
export function asked(others: OtherJobs): OtherJobs {
  const once = (ask: (id: string) => Promise<boolean>) => {
    const known = new Map<string, Promise<boolean>>();
    return (id: string) => {
      const answer = known.get(id) ?? ask(id);
      known.set(id, answer);
      return answer;
    };
  };
  return { sees: once(others.sees), hides: once(others.hides) };
}

/** Whether a job may name another one. */
export function namesOthers(job: StoredJob): boolean {
  const { id, job_context, parent, forked_from, held, error, responses } = job;
  if (parent || forked_from || held || job_context.mission_id !== id) return true;
  return isNaming(error) || responses.some(isResponseNaming);
}

/** A job without the ids of jobs that its reader does not see. */
export async function withoutHidden(job: StoredJob, others: OtherJobs): Promise<StoredJob> {
  const { parent, forked_from, held, job_context } = job;
  const clean = cleaner(others);
  return {
    ...job,
    // That of a child is the id of the first of its ancestors.
    ...((await others.hides(job_context.mission_id)) && {
      job_context: { ...job_context, mission_id: job.id },
    }),
    parent: parent && (await others.sees(parent.job_id)) ? parent : null,
    forked_from: forked_from && (await others.sees(forked_from.job_id)) ? forked_from : null,
    error: await clean(job.error),
    held: held && {
      ...held,
      message: await clean(held.message),
      expected: await clean(held.expected),
      found: await clean(held.found),
    },
    responses: await Promise.all(
      job.responses.map(async (one) => ({
        ...one,
        message: await clean(one.message),
        error_message: await clean(one.error_message),
        error_traceback: await clean(one.error_traceback),
      })),
    ),
  };
}

/** A line of a job's log without the ids of jobs that its reader does not see. */
export async function entryWithoutHidden(entry: RunEntry, others: OtherJobs): Promise<RunEntry> {
  const clean = cleaner(others);
  if (entry.type === "status")
    return entry.reason === undefined ? entry : { ...entry, reason: await clean(entry.reason) };
  if (entry.type === "mark") {
    const { message } = entry;
    if (message === undefined) return entry;
    const [, origin] = (entry.mark === "forked" && /^from job ([^ ,]+),/.exec(message)) || [];
    if (origin !== undefined && !(await others.sees(origin)))
      return { ...entry, message: message.replace(origin, HIDDEN) };
    return { ...entry, message: await clean(message) };
  }
  if (entry.type === "attempt") return { ...entry, error: await clean(entry.error) };
  if (entry.type === "answer") return entry;
  const shown = await withoutHiddenKey(entry, others);
  if (shown.type === "begun") return shown;
  const { error, result } = shown;
  const isChild = shown.call === "start" && typeof result === "string" && !(await others.sees(result));
  const isJob = shown.call === "read" && shown.case_id === undefined && error === undefined;
  return {
    ...shown,
    ...(isChild && { result: null }),
    ...(isJob && { result: await withoutHidden(result as StoredJob, others) }),
    ...(error && {
      error: {
        ...error,
        message: await clean(error.message),
        ...(error.stack !== undefined && { stack: await clean(error.stack) }),
      },
    }),
  };
}

/** The calls that await or stop a child have its id as their key. */
async function withoutHiddenKey<E extends Extract<RunEntry, { type: "call" | "begun" }>>(
  entry: E,
  others: OtherJobs,
): Promise<E> {
  const { key } = entry;
  if (key === undefined || (entry.call !== "child" && entry.call !== "stop") || (await others.sees(key)))
    return entry;
  const { key: _key, ...shown } = entry;
  return shown as E;
}

/** A text without the ids of hidden jobs: also one of an agent, where that passes on a message of the service. */
export async function textWithoutHidden<T extends string | null | undefined>(
  text: T,
  { hides }: OtherJobs,
): Promise<T> {
  if (!isNaming(text)) return text;
  const ids = new Set(Array.from(text.matchAll(NAMED), ([, id]) => id!));
  const hidden = new Set<string>();
  for (const id of ids) if (ids.size > MOST_NAMED || (await hides(id))) hidden.add(id);
  return text.replace(NAMED, (whole, id: string) =>
    hidden.has(id) ? whole.slice(0, -id.length) + HIDDEN : whole,
  ) as T;
}

function cleaner(others: OtherJobs) {
  return <T extends string | null | undefined>(text: T) => textWithoutHidden(text, others);
}

function isNaming(text: string | null | undefined): text is string {
  return typeof text === "string" && text.search(NAMED) >= 0;
}

function isResponseNaming({ message, error_message, error_traceback }: JobResponse): boolean {
  return isNaming(message) || isNaming(error_message) || isNaming(error_traceback);
}
