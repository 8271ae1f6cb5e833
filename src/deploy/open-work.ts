import { isLoopback } from "../core/base/loopback.ts";
import { DeployError } from "./errors.ts";
import type { Emit } from "./events.ts";
import type { DeployTools } from "./tools.ts";

/** A job that has not ended. */
export interface OpenJob {
  readonly id: string;
  /** `stopped` is one that waits to be started, `awaiting` one with an open question. */
  readonly status: string;
}

/** What a running service has not ended yet, or why that is not known. */
export type OpenWork =
  | {
      readonly known: true;
      /** The first hundred of each status. */
      readonly jobs: readonly OpenJob[];
      /** How many there are in all. */
      readonly total: number;
    }
  | { readonly known: false; readonly reason: string };

/** Ways to come by a key, tried one after the other until the service takes one. */
export type KeySource = () => Promise<string | undefined> | string | undefined;

export interface AskOptions {
  readonly tools: Pick<DeployTools, "fetch" | "redact" | "signal">;
  /** Address of the service. */
  readonly url: string | undefined;
  /** What stands before the path of the API. */
  readonly prefix?: string | undefined;
  readonly keys: readonly KeySource[];
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const OPEN = ["in_progress", "awaiting", "cancelling", "stopped"];
/** Milliseconds for one answer: a service that is not at home must not hold up a deployment for long. */
const PATIENCE = 15_000;

/** Asks a service for its jobs that have not ended. Never rejects but when the step's own time is over. */
export async function askOpenWork(options: AskOptions): Promise<OpenWork> {
  const { tools, url } = options;
  if (url === undefined) return { known: false, reason: "the platform names no address for it" };
  const { protocol, hostname } = new URL(url);
  if (protocol !== "https:" && !isLoopback(hostname))
    return { known: false, reason: `its key is not sent over plain http to ${hostname}` };
  try {
    const client = await signIn(options, url.replace(/\/$/, ""));
    if (typeof client === "string") return { known: false, reason: client };
    const jobs: OpenJob[] = [];
    let total = 0;
    for (const status of OPEN) {
      const page = await client(status);
      jobs.push(...page.jobs);
      total += page.total;
    }
    return { known: true, jobs, total };
  } catch (error) {
    if (tools.signal.aborted) throw tools.signal.reason;
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    return {
      known: false,
      reason: `it gave no answer (${cause instanceof Error ? cause.message : String(cause)})`,
    };
  }
}

/** Says what is open, in words. */
export function describeOpenWork(work: OpenWork, serviceName: string): string {
  if (!work.known) return `Whether jobs run on "${serviceName}" is not known: ${work.reason}`;
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

/**
 * Stops where open work would be lost, unless its loss was accepted: then it is only told. What is not known counts as
 * open, but for a run that goes on with what it had begun: its service may be down for that very reason.
 */
export function guardOpenWork(
  work: OpenWork | undefined,
  options: {
    readonly serviceName: string;
    /** What is about to happen to it, such as "replaced". */
    readonly fate: string;
    readonly accepted: boolean;
    readonly resumed: boolean;
    readonly emit: Emit;
  },
): void {
  const { serviceName, fate, accepted, resumed, emit } = options;
  if (!mayLose(work) || (resumed && !work.known)) return;
  const message = describeOpenWork(work, serviceName);
  const lost = `its files go when it is ${fate}`;
  if (accepted) {
    const told = `${message}; ${lost}, as --accept-data-loss says`;
    emit({ type: "notice", level: "warning", message: told });
    return;
  }
  const list = work.known ? work.jobs.map(({ id, status }) => `${id}: ${status}`).slice(0, 20) : [];
  if (work.known && work.total > list.length) list.push(`… ${work.total} in all`);
  throw new DeployError("open_work", `${message}; ${lost}`, {
    detail: list.join("\n") || undefined,
    outcome: "The service was not touched",
    fix: work.known
      ? "Wait until they have ended (svc job list), or give --accept-data-loss to lose them"
      : "Set SERVICE_API_KEY to its key and see that it answers, or give --accept-data-loss to lose what may be open",
    facts: { open_work: work },
  });
}

type Client = (status: string) => Promise<{ readonly jobs: readonly OpenJob[]; readonly total: number }>;

/** A client with the first key that the service takes, or why there is none. */
async function signIn({ tools, prefix = "", keys, headers = {} }: AskOptions, base: string) {
  const send = (path: string, key: string | undefined) =>
    tools.fetch(`${base}${path}`, {
      headers: { ...headers, accept: "application/json", ...(key === undefined ? {} : { "x-api-key": key }) },
      // A redirect would take the key to a place that nobody named.
      redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE),
    });
  let path = `${prefix}/jobs`;
  let tried = 0;
  for (const source of [...keys, () => ""]) {
    const found = await source();
    if (found === undefined || (found === "" && tried > 0)) continue;
    const key = found === "" ? undefined : found;
    if (key !== undefined) tools.redact(key);
    let response = await send(`${path}?status=awaiting&limit=1`, key);
    if (response.status === 404) {
      path = (await findPath(await send("/openapi.json", key))) ?? path;
      response = await send(`${path}?status=awaiting&limit=1`, key);
    }
    await response.body?.cancel();
    if (key !== undefined) tried += 1;
    if (response.status === 401 || response.status === 403) continue;
    if (!response.ok) return `it answered ${response.status} to ${path}`;
    const client: Client = async (status) => {
      const answer = await send(`${path}?status=${status}&limit=100`, key);
      const list: unknown = answer.ok ? await answer.json().catch(() => undefined) : undefined;
      if (!Array.isArray(list)) throw new Error(`${path} answered ${answer.status} and no list of jobs`);
      const jobs = list.map((job: { job_id?: unknown; status?: unknown }) => ({
        id: String(job.job_id),
        status: String(job.status),
      }));
      return { jobs, total: Math.max(jobs.length, Number(answer.headers.get("x-total-count") ?? 0)) };
    };
    return client;
  }
  return tried > 0 ? "it does not take the key that is known here" : "its key is not known here";
}

/** Path of the list of jobs where a prefix stands before it, from the service's own description. */
async function findPath(response: Response): Promise<string | undefined> {
  const document: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  const { paths = {} } = (document ?? {}) as { paths?: Record<string, unknown> };
  // Of an agent's own list the path has a parameter.
  return Object.keys(paths).find((path) => /^[^{}]*\/jobs$/.test(path) && !path.startsWith("/admin/"));
}
