import { isLoopback } from "../core/base/loopback.ts";
import { DeployError } from "./errors.ts";
import type { Emit } from "./events.ts";
import type { DeployTools } from "./tools.ts";

/** A job that has not ended. */
export interface OpenJob {
  readonly id: string;
  /** `stopped` is one that waits to be started, `awaiting` one with an open question. */
  readonly status: string;
  /** It runs only when a person decides so. */
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
  | { readonly known: false; readonly reason: string };

/** Sources of a key, tried one after another until the service accepts one. */
export type KeySource = () => Promise<string | undefined> | string | undefined;

export interface AskOptions {
  readonly tools: Pick<DeployTools, "fetch" | "redact" | "signal">;
  /** Address of the service. */
  readonly url: string | undefined;
  /** Prefix of the API's paths. */
  readonly prefix?: string | undefined;
  readonly keys: readonly KeySource[];
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

const HELD: readonly string[] = ["crash_loop", "code_changed"];
const OPEN = ["in_progress", "awaiting", "cancelling", "stopped"];
/** Milliseconds for one response: an unreachable service must not delay a deployment for long. */
const PATIENCE = 15_000;

/**
 * Asks a service for its jobs that have not ended. Rejects only when the step's own time limit is reached.
 */
export async function askOpenWork(options: AskOptions): Promise<OpenWork> {
  const { tools, url } = options;
  if (url === undefined) return { known: false, reason: "the platform does not report its address" };
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
      reason: `it did not respond (${cause instanceof Error ? cause.message : String(cause)})`,
    };
  }
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

/**
 * Rejects if open work would be lost, unless its loss was accepted: then it is only reported. Unknown counts
 * as open, except for a run that continues an earlier one: the service may be down for exactly that reason.
 */
export function guardOpenWork(
  work: OpenWork | undefined,
  options: {
    readonly serviceName: string;
    /** What becomes of it, as a clause. */
    readonly fate: string;
    readonly accepted: boolean;
    readonly resumed: boolean;
    readonly emit: Emit;
  },
): void {
  const { serviceName, fate, accepted, resumed, emit } = options;
  if (!mayLose(work) || (resumed && !work.known)) return;
  const message = describeOpenWork(work, serviceName);
  if (accepted) {
    const told = `${message}; ${fate}, as accepted by --accept-data-loss`;
    emit({ type: "notice", level: "warning", message: told });
    return;
  }
  const list = work.known ? work.jobs.map(({ id, status }) => `${id}: ${status}`).slice(0, 20) : [];
  if (work.known && work.total > list.length) list.push(`… ${work.total} in total`);
  throw new DeployError("open_work", `${message}; ${fate}`, {
    detail: list.join("\n") || undefined,
    outcome: "The service was not changed",
    fix: work.known
      ? "Wait until they have ended (svc job list), or add --accept-data-loss to lose them"
      : "Set SERVICE_API_KEY to its key and check that it responds, or add --accept-data-loss to lose what may be open",
    facts: { open_work: work },
  });
}

type Client = (status: string) => Promise<{ readonly jobs: readonly OpenJob[]; readonly total: number }>;

/** A client with the first key that the service takes, or why there is none. */
async function signIn({ tools, prefix = "", keys, headers = {} }: AskOptions, base: string) {
  const send = (path: string, key: string | undefined) =>
    tools.fetch(`${base}${path}`, {
      headers: { ...headers, accept: "application/json", ...(key === undefined ? {} : { "x-api-key": key }) },
      // A redirect would send the key to a host that the user did not name.
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
    if (!response.ok) return `it responded to ${path} with ${response.status}`;
    const client: Client = async (status) => {
      const answer = await send(`${path}?status=${status}&limit=100`, key);
      const list: unknown = answer.ok ? await answer.json().catch(() => undefined) : undefined;
      if (!Array.isArray(list))
        throw new Error(`${path} responded with ${answer.status} and without a list of jobs`);
      const jobs = list.map((job: { job_id?: unknown; status?: unknown; stop_reason?: unknown }) => ({
        id: String(job.job_id),
        status: String(job.status),
        ...(job.status === "awaiting" && HELD.includes(job.stop_reason as string)
          ? { held: true as const }
          : {}),
      }));
      return { jobs, total: Math.max(jobs.length, Number(answer.headers.get("x-total-count") ?? 0)) };
    };
    return client;
  }
  return tried > 0 ? "it rejects the key that is known here" : "its key is unknown here";
}

/** Path of the list of jobs if the API has a prefix, from the service's own OpenAPI document. */
async function findPath(response: Response): Promise<string | undefined> {
  const document: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  const { paths = {} } = (document ?? {}) as { paths?: Record<string, unknown> };
  // The path of an agent's own list has a parameter.
  return Object.keys(paths).find((path) => /^[^{}]*\/jobs$/.test(path) && !path.startsWith("/admin/"));
}
