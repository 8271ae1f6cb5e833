import type { StartArguments, StartableAgent } from "../core/agents/run-context.ts";
import type { NamesOf } from "../core/base/refuse-unknown.ts";
import type { EntityStatus } from "../core/models/entity-status.ts";
import type { Job } from "../core/models/job.ts";
import type { JobContext } from "../core/models/job-context.ts";
import type { JobInstructions } from "../core/models/job-instructions.ts";
import type { ListedJob } from "../core/models/listed-job.ts";
import type { AgentAt, AgentsIn, JsonResult, SlugOf } from "./agent-types.ts";
import { type ClientOptions, type Credential, Http, type RequestOptions, readJson } from "./http.ts";
import { newId } from "./new-id.ts";
import { onlyKnown, SIGNAL } from "./only-known.ts";
import { RemoteJob } from "./remote-job.ts";
import { type Uploaded, type UploadOptions, upload } from "./upload.ts";

export interface StartJobOptions extends RequestOptions {
  /** The job's id: the same start again gives the same job. @default a new one */
  readonly id?: string;
  /** Limits of the job. @default none */
  readonly instructions?: Partial<JobInstructions>;
  /** Who starts it, and for which mission. A service that reports to a control system requires all of it. */
  readonly context?: Partial<Omit<JobContext, "job_id" | "job_instructions">>;
  /** By which the job is found. @default none */
  readonly tags?: readonly string[];
  /** Parameters of the agent, encrypted with the service's public key. */
  readonly encryptedParameters?: string;
}

export interface ListOptions extends RequestOptions {
  readonly status?: EntityStatus;
  /** What they do, such as `sleeping`: a status may be several of them. */
  readonly state?: ListedJob["state"];
  /** Only jobs with this tag. */
  readonly tag?: string;
  /** @default 100; up to 1000 */
  readonly limit?: number;
  /** @default 0 */
  readonly skip?: number;
  /** `next` of the page before this one: no job is repeated or skipped while others start. */
  readonly after?: string | undefined;
}

/** A page of jobs. */
export interface JobPage {
  /** Newest first. */
  readonly items: readonly ListedJob[];
  /** How many there are on all pages. */
  readonly total: number;
  /** `after` of the next page; absent on the last one. */
  readonly next?: string | undefined;
}

/** Calls a service whose agents it knows by their types. Calls reject with `ClientError`. */
export interface Client<Agents extends StartableAgent = StartableAgent> {
  /**
   * Starts a job of an agent. A start whose answer was lost is sent again; the service starts it once.
   *
   * @example
   * const job = await service.start("invoice-audit", { folder: "/srv/invoices" });
   */
  start<At extends SlugOf<Agents>>(
    slug: At,
    ...given: StartArguments<AgentAt<Agents, At>, StartJobOptions>
  ): Promise<RemoteJob<JsonResult<AgentAt<Agents, At>>>>;
  /** A job by its id; nothing is sent. The slug of its agent types its result: `service.job<"hello">(id)`. */
  job<At extends SlugOf<Agents> = SlugOf<Agents>>(id: string): RemoteJob<JsonResult<AgentAt<Agents, At>>>;
  /**
   * Sends a file, and resolves with what a field takes in its place. It is sent in parts, and continues where a connection
   * breaks.
   *
   * @example
   * const contract = await service.upload(input.files[0], { onProgress: (sent, total) => show(sent / total) });
   * const job = await service.start("contract-reader", { contract });
   */
  readonly upload: RemoteJob["upload"];
  /** Jobs, newest first: of one agent, or of all. */
  list(slug?: SlugOf<Agents>, options?: ListOptions): Promise<JobPage>;
}

/**
 * A client of a service, typed by its agents. `url` is the service's address, with its API prefix; `key` its API key, or
 * a token of one job, or a function that fetches one: it is called again when the service refuses the last one.
 *
 * @example
 * import type { agents } from "../service/agents.ts";
 *
 * const service = client<typeof agents>("https://agents.example.com", process.env.SERVICE_API_KEY);
 * const job = await service.start("invoice-audit", { folder: "/srv/invoices" });
 * console.log(await job.result());
 */
export function client<Source = StartableAgent>(
  url: string,
  key?: Credential,
  options: ClientOptions = {},
): Client<AgentsIn<Source>> {
  return new ServiceClient(new Http(url, key, options)) as unknown as Client<AgentsIn<Source>>;
}

const START: NamesOf<StartJobOptions> = {
  ...{ id: true, instructions: true, context: true, tags: true, encryptedParameters: true },
  ...SIGNAL,
};
const LIST: NamesOf<ListOptions> = {
  status: true,
  state: true,
  tag: true,
  limit: true,
  skip: true,
  after: true,
  ...SIGNAL,
};

class ServiceClient {
  readonly #http: Http;

  constructor(http: Http) {
    this.#http = http;
  }

  async start(
    slug: string,
    fields: Readonly<Record<string, unknown>> = {},
    options: StartJobOptions = {},
  ): Promise<RemoteJob> {
    const given = onlyKnown(options, START, "start");
    const { id = newId("job"), instructions, context, tags, encryptedParameters, signal } = given;
    // The id makes it safe to send the request again.
    const job_context = { ...context, job_id: id, ...(instructions && { job_instructions: instructions }) };
    const json = { job_context, job_fields: fields, encrypted_agent_parameters: encryptedParameters, tags };
    const request = { method: "POST", repeatable: true, json, signal } as const;
    const job = await this.#http.json<Job>(`/agents/${encodeURIComponent(slug)}/jobs`, request);
    return this.job(job.id);
  }

  job(id: string): RemoteJob {
    return new RemoteJob(this.#http, id);
  }

  upload(file: Blob, options?: UploadOptions): Promise<Uploaded> {
    return upload(this.#http, "/files", file, options);
  }

  async list(slug?: string, options: ListOptions = {}): Promise<JobPage> {
    const { status, state, tag, limit = 100, skip = 0, after, signal } = onlyKnown(options, LIST, "list");
    const jobs = slug === undefined ? "/jobs" : `/agents/${encodeURIComponent(slug)}/jobs`;
    const asked = {
      limit: String(limit),
      skip: String(skip),
      ...(status && { status }),
      ...(state && { state }),
      ...(tag && { tag }),
      ...(after && { after }),
    };
    const response = await this.#http.send(`${jobs}?${new URLSearchParams(asked)}`, { signal });
    const items = await readJson<ListedJob[]>(response);
    const next = response.headers.get("x-next-cursor");
    const total = Number(response.headers.get("x-total-count") ?? items.length);
    return { items, total, ...(next !== null && { next }) };
  }
}
