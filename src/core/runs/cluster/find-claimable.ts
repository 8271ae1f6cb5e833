import type { StoredJob } from "../../models/job.ts";
import { ACTIVE_JOBS, UNFINISHED } from "../../models/job-state.ts";
import type { Instance } from "../../models/own-rows.ts";
import type { Condition, Position } from "../../store/store.ts";
import { toQueuedJob } from "../queue/queued-job.ts";
import type { RequestParts } from "../runner-parts.ts";

type Where = Readonly<Record<string, Condition | undefined>>;

/** Jobs that one search reads behind the oldest of a workspace, where those are for others. */
const PAGE = 200;
/** What jobs without an owner are counted by. */
const NOBODY = "null";

/** Where the searches of an instance have got to, by workspace: behind jobs that are for others. */
export class Searched {
  readonly unowned = new Map<string, Position>();
  readonly ofDead = new Map<string, Position>();
}

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
  {
    living,
    owners,
    searched,
  }: {
    readonly living: readonly Instance[];
    readonly owners: readonly string[];
    readonly searched: Searched;
  },
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
  const due = await firstOfEach(parts, { ...open, owner: null }, { isDue, searched: searched.unowned });
  if (dead.length > 0 && due.length < scheduler.free)
    due.push(...(await firstOfEach(parts, { ...open, owner: dead }, { isDue, searched: searched.ofDead })));
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

/** The oldest of each workspace that are due, in turn: those come first of whose workspace the fewest run here. */
async function firstOfEach(
  { jobs, scheduler }: RequestParts,
  where: Where,
  {
    isDue,
    searched,
  }: { readonly isDue: (job: StoredJob) => boolean; readonly searched: Map<string, Position> },
): Promise<StoredJob[]> {
  const { free } = scheduler;
  if (free <= 0) return [];
  const workspaces = Object.keys(await jobs.countBy("workspace_id", { where }));
  for (const workspace of searched.keys()) if (!workspaces.includes(workspace)) searched.delete(workspace);
  const running = (workspace: string) => scheduler.runningOf(workspace);
  const inTurn = workspaces.toSorted((a, b) => running(a) - running(b)).slice(0, free);
  const oldestOf = async (workspace_id: string) => {
    const query = { where: { ...where, workspace_id }, sort: "created_at", uncounted: true };
    const first = await jobs.list({ ...query, limit: 2 * free });
    const due = first.items.filter(isDue);
    if (!first.next) searched.delete(workspace_id);
    if (!first.next || due.length >= free) return due;
    // Some are for others, such as those of a version that others host. Those behind them must not wait for that: each
    // search reads some more, and the one after the last begins at the oldest.
    const after = searched.get(workspace_id) ?? first.next;
    const { items, next } = await jobs.list({ ...query, limit: PAGE, after });
    if (next) searched.set(workspace_id, next);
    else searched.delete(workspace_id);
    const known = new Set(first.items.map(({ id }) => id));
    return [...due, ...items.filter((job) => !known.has(job.id) && isDue(job))];
  };
  const lists = await Promise.all(inTurn.map(oldestOf));
  const longest = Math.max(0, ...lists.map(({ length }) => length));
  return Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1))).flat();
}
