import type { StoredJob } from "../../models/job.ts";
import { ACTIVE_JOBS, UNFINISHED } from "../../models/job-state.ts";
import type { Instance } from "../../models/own-rows.ts";
import type { Condition } from "../../store/store.ts";
import { toQueuedJob } from "../queue/scheduler.ts";
import type { RequestParts } from "../runner-parts.ts";

type Where = Readonly<Record<string, Condition | undefined>>;

/** What jobs without an owner are counted by. */
const NOBODY = "null";

interface Claimable {
  readonly found: StoredJob[];
  /** Instances that have ended without giving their jobs up; one that closes, or comes back under a new id, removes its row. */
  readonly died: ReadonlySet<string>;
}

/** Owners of jobs that may be claimed: read before it is known who is alive, so that nobody new among them counts as dead. */
export async function findOwners({ jobs }: Pick<RequestParts, "jobs">): Promise<string[]> {
  const where = { status: UNFINISHED, wake_at: null };
  return Object.keys(await jobs.countBy("owner", { where, joins: "now" }));
}

/**
 * Jobs of agents of this instance that nobody living owns: those that are to end, and of the others no more than there
 * are slots, from each workspace in turn, oldest first; those that may have ended their instance come last.
 */
export async function findClaimable(
  parts: RequestParts,
  living: readonly Instance[],
  owners: readonly string[],
): Promise<Claimable> {
  const { cluster, jobs, runs, scheduler, store, suspects } = parts;
  const alive = new Set(living.map(({ id }) => id));
  const dead = owners.filter((id) => id !== NOBODY && !alive.has(id));
  if (dead.length === 0 && !owners.includes(NOBODY)) return { found: [], died: new Set() };
  const died = dead.length > 0 ? await store.table("Instance").ids({ where: { id: dead } }) : [];
  const owner = [null, ...dead];
  const where = await hostedOf(parts, { status: UNFINISHED, wake_at: null, owner });
  if (where === undefined) return { found: [], died: new Set(died) };
  const ending = await jobs.list({
    where: { ...where, wake_at: null, owner, status: "cancelling" },
    limit: 100,
  });
  const isHere = ({ id }: StoredJob) => runs.isRunning(id) || scheduler.position(id) !== undefined;
  const isDue = (job: StoredJob) => {
    if (isHere(job) || suspects.isLeft(job) || !cluster.mayRun(job)) return false;
    const queued = toQueuedJob(job);
    return job.owner ? scheduler.hasRoom(queued) : scheduler.hasFreeSlot(queued);
  };
  const open = { ...where, ...ACTIVE_JOBS };
  const due = (await firstOfEach(parts, { ...open, owner: null })).filter(isDue);
  if (dead.length > 0 && due.length < scheduler.free)
    due.push(...(await firstOfEach(parts, { ...open, owner: dead })).filter(isDue));
  const found = [...ending.items.filter((job) => !isHere(job)), ...due.slice(0, scheduler.free)];
  return { found, died: new Set(died) };
}

/**
 * The condition that leaves jobs of these agents alone which are not hosted here; none where all are hosted, as a
 * database would read what it has of these agents, ended jobs too. `undefined` where no agent of such jobs is hosted.
 */
async function hostedOf({ agents, jobs }: RequestParts, where: Where): Promise<Where | undefined> {
  const names = Object.keys(await jobs.countBy("agent_name", { where }));
  const hosted = names.filter((name) => agents.find(name) !== undefined);
  if (hosted.length === 0) return undefined;
  return hosted.length === names.length ? {} : { agent_name: hosted };
}

/** The oldest jobs of each workspace, in turn: those come first of whose workspace the fewest run here. */
async function firstOfEach({ jobs, scheduler }: RequestParts, where: Where): Promise<StoredJob[]> {
  const { free } = scheduler;
  if (free <= 0) return [];
  const workspaces = Object.keys(await jobs.countBy("workspace_id", { where }));
  const running = (workspace: string) => scheduler.runningOf(workspace);
  const inTurn = workspaces.toSorted((a, b) => running(a) - running(b)).slice(0, free);
  // Some may be of versions that others host.
  const query = { sort: "created_at", limit: 2 * free };
  const lists = await Promise.all(
    inTurn.map((workspace_id) => jobs.list({ where: { ...where, workspace_id }, ...query })),
  );
  const found: StoredJob[] = [];
  for (let at = 0; at < query.limit; at++)
    for (const { items } of lists) found.push(...items.slice(at, at + 1));
  return found;
}
