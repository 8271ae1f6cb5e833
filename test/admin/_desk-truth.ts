import { DESK_HOLDERS, type Desk, type DeskHolder, deskKeyOf, deskStartOf } from "../../bench/desk/seed.ts";
import { getOrMake } from "../../src/core/base/get-or-make.ts";

/** Jobs of the desk: a month as a busy one has it. `SVC_DESK_JOBS=240` for a quick look. */
export const DESK_JOBS = Number(process.env.SVC_DESK_JOBS ?? 6500);
export const DAY = 86_400_000;
/** The workspace of jobs that name none. */
const HOME = "local";

export interface Job {
  readonly id: string;
  readonly name: string;
  readonly agent_name: string;
  readonly agent_version: string | null;
  readonly status: string;
  readonly state: string;
  readonly created_at: string;
  readonly updated_at: string;
  readonly finished_at: string | null;
  readonly failure: string | null;
  readonly error: string | null;
  readonly stop_reason: string | null;
  readonly total_cost: number;
  readonly case_count: number;
  readonly failed_cases: number;
  readonly tags: readonly string[];
  readonly started_by: string;
}
export interface Case {
  readonly id: string;
  readonly name: string;
  readonly job_id: string;
  readonly status: string;
  readonly error: string | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly finished_at: string | null;
  readonly update_count: number;
  readonly total_cost: number;
}
export interface Use {
  readonly day: string;
  readonly agent: string;
  readonly model: string;
  readonly calls: number;
  readonly failed: number;
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cached_tokens: number;
  readonly cost: number;
}
export interface Question {
  readonly case_id: string;
  readonly job_id: string;
  readonly name: string;
  readonly question: {
    readonly question: string;
    readonly deadline?: string | null;
    readonly assigned_to?: string;
    readonly asked_at: string;
  };
}
export interface Deleted {
  readonly id: string;
  readonly name: string;
  readonly agent_name: string;
  readonly status: string;
  readonly deleted_at: string;
  readonly deleted_by: string;
}
export interface DeletedCase extends Omit<Deleted, "agent_name"> {
  readonly job_id: string;
}
export interface File {
  readonly name: string;
  readonly title?: string;
  readonly artifact?: string;
  readonly origin: string;
  readonly size: number;
  readonly created_at: string;
  readonly job_id: string;
}
export interface Event {
  readonly id: string;
  readonly name: string;
  readonly at: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly jobs: readonly string[];
}

/** An event that was not delivered. */
export interface Delivery {
  readonly id: string;
  readonly type: string;
  readonly target: string;
  readonly stream: string;
  readonly state: "waiting" | "dead";
  readonly attempts: number;
  readonly error: string | null;
  readonly created_at: string;
}

/** Who reads: the owner of the service, or the holder of a key that sees a part. */
export type Reader = "owner" | DeskHolder;
export const READERS: readonly Reader[] = ["owner", ...DESK_HOLDERS.map(({ name }) => name)];

/** What a reader may see of all that the owner can export; every figure for that reader is computed from this. */
export interface Truth {
  readonly reader: Reader;
  readonly now: number;
  readonly jobs: readonly Job[];
  readonly cases: readonly Case[];
  readonly questions: readonly Question[];
  readonly deleted: readonly Deleted[];
  readonly deletedCases: readonly DeletedCase[];
  readonly files: readonly File[];
  /** Sums of models, and what is spent of budgets, by agents; of the agents all of whose jobs the reader sees. */
  readonly uses: readonly Use[];
  /** Slugs in the order of the service. */
  readonly agents: readonly string[];
  readonly events: readonly Event[];
  readonly deliveries: Readonly<Record<Delivery["state"], readonly Delivery[]>>;
  /** A job that the schedule has started last, where the reader sees the schedule. */
  readonly scheduled: Job | undefined;
  /** Jobs by id, of all that the reader sees. */
  jobOf(id: string): Job;
}

const AGENTS = ["refund-desk", "orders-export", "support-triage", "held-desk"] as const;

const holderOf = (reader: Reader) => DESK_HOLDERS.find(({ name }) => name === reader);
export const keyOf = (desk: Desk, reader: Reader): string =>
  reader === "owner" ? desk.server.key : deskKeyOf(reader);

export interface Limits {
  readonly agents?: readonly string[];
  readonly workspace?: string;
  /** Only what it has started. */
  readonly starts?: boolean;
  /** Only questions that it is asked. */
  readonly answers?: boolean;
}

/** What a reader's key is limited to; `undefined` where that is nothing. */
export function limitsOf(reader: Reader): Limits | undefined {
  const holder = holderOf(reader);
  if (!holder) return undefined;
  return {
    ...("agents" in holder && { agents: holder.agents }),
    ...("workspace" in holder && { workspace: holder.workspace }),
    ...(holder.role === "starter" && { starts: true }),
    ...(holder.role === "answerer" && { answers: true }),
  };
}

/** Whether a reader sees all jobs of each agent of which it sees any. */
export function seesWholeAgents(reader: Reader): boolean {
  const { workspace, starts, answers } = limitsOf(reader) ?? {};
  return workspace === undefined && !starts && !answers;
}

/** What a key may read of a desk, as JSON. */
export async function readJson<T>(desk: Desk, path: string, reader: Reader = "owner"): Promise<T> {
  const response = await desk.server.request(path, {
    key: keyOf(desk, reader),
    headers: { accept: "application/json" },
  });
  if (!response.ok) throw new Error(`${path} for ${reader}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

/** All pages of a list of the API that is read with cursors in its headers. */
export async function readAll<T>(desk: Desk, path: string, reader: Reader = "owner"): Promise<T[]> {
  const items: T[] = [];
  for (let after: string | null = ""; after !== null; ) {
    const query = new URLSearchParams({ limit: "100", ...(after && { after }) });
    const response = await desk.server.request(`${path}?${query}`, { key: keyOf(desk, reader) });
    if (!response.ok) throw new Error(`${path} for ${reader}: ${await response.text()}`);
    items.push(...((await response.json()) as T[]));
    after = response.headers.get("x-next-cursor");
  }
  return items;
}

/** What the owner can export, filtered by what each reader may see: by the seed's rules, and not by the service's. */
export async function readTruths(desk: Desk): Promise<(reader: Reader) => Truth> {
  const [jobs, cases, uses, questions, deleted, deletedCases, files, events, dead, waiting] =
    await Promise.all([
      readJson<Job[]>(desk, "/admin/api/jobs/export?format=json"),
      readJson<Case[]>(desk, "/admin/api/cases/export?format=json"),
      readJson<Use[]>(desk, "/admin/api/models/export?format=json&days=366"),
      readPages<Question>(desk, "/admin/api/inbox"),
      readPages<Deleted>(desk, "/admin/api/deleted"),
      readPages<DeletedCase>(desk, "/admin/api/deleted-cases"),
      readAll<File>(desk, "/files"),
      readAll<Event>(desk, "/events"),
      readPages<Delivery>(desk, "/admin/api/deliveries?state=dead"),
      readPages<Delivery>(desk, "/admin/api/deliveries?state=waiting"),
    ]);
  const origin = await originsOf(desk, jobs);
  const sees = (reader: Reader, { id, agent_name }: { id: string; agent_name: string }) => {
    const limits = limitsOf(reader);
    if (!limits) return true;
    if (limits.answers) return false;
    const { by, workspace = HOME } = origin(id);
    return (
      (limits.agents?.includes(agent_name) ?? true) &&
      (limits.workspace === undefined || limits.workspace === workspace) &&
      (!limits.starts || by === reader)
    );
  };
  return (reader) => {
    const isAsked = limitsOf(reader)?.answers === true;
    const ownQuestions = questions.filter(({ question }) => question.assigned_to === reader);
    const asked = new Set(ownQuestions.map(({ case_id }) => case_id));
    const seen = new Map(jobs.filter((job) => sees(reader, job)).map((job) => [job.id, job]));
    const has = ({ job_id }: { readonly job_id: string }) => seen.has(job_id);
    const agents = isAsked ? [] : AGENTS.filter((agent) => limitsOf(reader)?.agents?.includes(agent) ?? true);
    const runs = jobs.filter(({ id }) => origin(id).isScheduled).map(({ created_at }) => created_at);
    const isWhole = seesWholeAgents(reader) && (agents as readonly string[]).includes("orders-export");
    return {
      ...{ reader, now: desk.now(), agents, jobs: [...seen.values()] },
      cases: cases.filter((item) => (isAsked ? asked.has(item.id) : has(item))),
      questions: isAsked ? ownQuestions : questions.filter(has),
      deleted: deleted.filter((job) => sees(reader, job)),
      deletedCases: deletedCases.filter(has),
      files: files.filter(has),
      uses: seesWholeAgents(reader)
        ? uses.filter(({ agent }) => (agents as readonly string[]).includes(agent))
        : [],
      events: reader === "owner" ? events : [],
      deliveries: reader === "owner" ? { dead, waiting } : { dead: [], waiting: [] },
      scheduled: isWhole ? jobs.find(({ created_at }) => created_at === runs.sort().at(-1)) : undefined,
      jobOf: (id) => seen.get(id)!,
    };
  };
}

/** All pages of a list of the admin API, which says where the next one starts. */
async function readPages<T>(desk: Desk, path: string): Promise<T[]> {
  const items: T[] = [];
  for (let total = 1; items.length < total; ) {
    const page = await readJson<{ items: T[]; total: number }>(
      desk,
      `${path}${path.includes("?") ? "&" : "?"}limit=100&skip=${items.length}`,
    );
    total = page.total;
    items.push(...page.items);
    if (page.items.length === 0) break;
  }
  return items;
}

interface Origin {
  readonly by?: DeskHolder;
  readonly workspace?: string;
  readonly isScheduled?: boolean;
}

/** Who started each job and where: by the number in its id, that of its parent, or as the schedule does. */
async function originsOf(desk: Desk, jobs: readonly Job[]): Promise<(id: string) => Origin> {
  const numberOf = (id: string) => /^job-(\d+)$/.exec(id)?.[1];
  const parents = new Map<string, string>();
  for (const { id } of jobs.filter(({ id }) => numberOf(id) === undefined)) {
    const { parent } = await readJson<{ parent: { job_id: string } | null }>(desk, `/jobs/${id}/result`);
    if (parent) parents.set(id, parent.job_id);
  }
  return (id) => {
    const n = numberOf(parents.get(id) ?? id);
    return n === undefined ? { isScheduled: true } : deskStartOf(Number(n));
  };
}

export const sum = (numbers: readonly number[]) =>
  Number(numbers.reduce((all, one) => all + one, 0).toPrecision(14));

export function groupBy<T>(items: readonly T[], key: (item: T) => string | null): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const of = key(item);
    if (of !== null) getOrMake(groups, of, (): T[] => []).push(item);
  }
  return groups;
}

export const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);

/** By times, the newest first; ties as the service orders them, by id. */
export function newestFirst<T extends object>(items: readonly T[], at: (item: T) => string): T[] {
  return [...items].sort((a, b) => {
    const [x, y] = [at(a), at(b)];
    if (x !== y) return x < y ? 1 : -1;
    return idOf(a) < idOf(b) ? -1 : 1;
  });
}
const idOf = (item: object) => ("id" in item ? String(item.id) : "");
