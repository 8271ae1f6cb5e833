import { DeployError } from "./errors.ts";
import { type Emit, warn } from "./events.ts";
import { type ConnectOptions, type ServiceClient, withService } from "./service-client.ts";

/** A job that has not ended. */
export interface OpenJob {
  readonly id: string;
  /** `stopped` is one that waits to be started, `awaiting` one with an open question. */
  readonly status: string;
  /** The job runs only when a person decides so. */
  readonly held?: true;
}

/** A running service's unfinished jobs, or why they are unknown. */
export type OpenWork =
  | {
      readonly known: true;
      /** The first hundred of each status. */
      readonly jobs: readonly OpenJob[];
      /** Total number. */
      readonly total: number;
    }
  | {
      readonly known: false;
      readonly reason: string;
      /** Whether it runs, and takes none of the keys that are known here. */
      readonly rejected?: boolean;
    };

const HELD: readonly string[] = ["crash_loop", "code_changed", "unreadable_parameters"];
const OPEN = ["in_progress", "awaiting", "cancelling", "stopped"];
/**
 * Asks a service for its jobs that have not ended. Rejects only when the step's own time limit is reached.
 */
export async function askOpenWork(options: ConnectOptions): Promise<OpenWork> {
  return withService<OpenWork>(
    options,
    async (service) => {
      const jobs: OpenJob[] = [];
      let total = 0;
      for (const status of OPEN) {
        const page = await listJobs(service, status);
        jobs.push(...page.jobs);
        total += page.total;
      }
      return { known: true, jobs, total };
    },
    (reason, rejected) => ({ known: false, reason, ...(rejected ? { rejected } : {}) }),
  );
}

async function listJobs(service: ServiceClient, status: string) {
  const answer = await service.send(`/jobs?status=${status}&limit=100`);
  const list: unknown = await answer?.json().catch(() => undefined);
  if (!answer || !Array.isArray(list)) throw new Error("/jobs responded without a list of jobs");
  const jobs = list.map((job: { job_id?: unknown; status?: unknown; stop_reason?: unknown }) => ({
    id: String(job.job_id),
    status: String(job.status),
    ...(job.status === "awaiting" && HELD.includes(job.stop_reason as string) ? { held: true as const } : {}),
  }));
  return { jobs, total: Math.max(jobs.length, Number(answer.headers.get("x-total-count") ?? 0)) };
}

/** Describes the open work as text. */
export function describeOpenWork(work: OpenWork, serviceName: string): string {
  if (!work.known) return `It is unknown whether "${serviceName}" has open jobs: ${work.reason}`;
  const awaiting = work.jobs.filter(({ status }) => status === "awaiting").length;
  const rest = work.total - awaiting;
  const parts = [
    rest > 0 ? `${rest} ${rest === 1 ? "job has" : "jobs have"} not ended` : undefined,
    awaiting > 0 ? `${awaiting} ${awaiting === 1 ? "question is" : "questions are"} open` : undefined,
  ].filter(Boolean);
  return parts.length === 0
    ? `"${serviceName}" has no open jobs`
    : `${parts.join(" and ")} on "${serviceName}"`;
}

/** Whether something may be lost with the service's files. */
export function mayLose(work: OpenWork | undefined): work is OpenWork {
  return work !== undefined && (!work.known || work.total > 0);
}

/** Rejects if open work would be lost, unless its loss was accepted: then it is only reported. Unknown counts as open. */
export function guardOpenWork(
  work: OpenWork | undefined,
  options: {
    readonly serviceName: string;
    /** What becomes of it, as a clause. */
    readonly fate: string;
    readonly accepted: boolean;
    readonly emit: Emit;
  },
): void {
  const { serviceName, fate, accepted, emit } = options;
  if (!mayLose(work)) return;
  const message = describeOpenWork(work, serviceName);
  if (accepted) {
    const told = `${message}; ${fate}, as accepted by --accept-data-loss`;
    warn(emit, told);
    return;
  }
  const list = work.known ? work.jobs.map(({ id, status }) => `${id}: ${status}`).slice(0, 20) : [];
  if (work.known && work.total > list.length) list.push(`… ${work.total} in total`);
  throw new DeployError("open_work", `${message}; ${fate}`, {
    detail: list.join("\n") || undefined,
    outcome: "The service was not changed",
    fix: work.known
      ? "Wait until they have ended (svc job list), or add --accept-data-loss to lose them"
      : work.rejected
        ? "Set SERVICE_API_KEY to the key that it runs with; where that key is being replaced, SERVICE_PREVIOUS_API_KEY. Or add --accept-data-loss to lose what may be open"
        : "Set SERVICE_API_KEY to its key and check that it responds, or add --accept-data-loss to lose what may be open",
    facts: { open_work: work },
  });
}
