import { getOrMake } from "../../base/get-or-make.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { QueuePosition } from "../runner.ts";
import { Key, type KeyLimit } from "./concurrency-key.ts";
import type { QueuedJob } from "./queued-job.ts";
import { Slot } from "./slot.ts";
import { type Rate, StartRates } from "./start-rates.ts";
import { type Waiting, WaitingLine } from "./waiting-line.ts";

/** Is notified who gets a slot, and who releases it. */
export interface SlotWatch {
  began(job: QueuedJob): void;
  /** All that began are about to run code. */
  used(): void;
  /** `isOver` where its run has ended. */
  rested(job: QueuedJob, isOver: boolean): void;
}

/** What the jobs of an agent may have at the same time, and how often they may start. */
export interface AgentLimits {
  readonly slots: number;
  /** @default as many jobs as may of each concurrency key */
  readonly key?: KeyLimit | undefined;
  /** @default as often as there are slots */
  readonly rate?: Rate | undefined;
}

/** Ends the name under which first starts of an agent with a rate limit wait: others of that agent do not wait for it. */
const RATED = "\0start";

/** The same of an agent without one: where the agent is paused, only they wait. */
const FIRST = "\0first";

/** Begins the name under which jobs of a workspace with a limit wait; no slug and no JSON has it. */
const LIMITED = "\0";

interface Entry extends Waiting {
  readonly job: QueuedJob;
  readonly grant: (granted: boolean) => void;
}

interface Share {
  running: number;
  /** When the workspace last got a slot, in order of grants. */
  served: number;
}

/**
 * Gives out the slots that jobs run in: so many per service and per agent. Those that wait are served in the order
 * in which they came, in turn for each workspace, so that no one's backlog holds up the others.
 */
export class Scheduler {
  readonly #slots: number;
  readonly #agents: ReadonlyMap<string, AgentLimits>;
  readonly #slotsIn: ((workspace: string) => number | undefined) | undefined;
  readonly #rates: StartRates;
  /** Is notified from when it is set. */
  watch: SlotWatch | undefined;
  readonly #isShared: boolean;
  /** Agents of which as many jobs run as may, at all instances together. */
  readonly #blocked = new Set<string>();
  /** The same of workspaces. */
  readonly #blockedWorkspaces = new Set<string>();
  /** Agents that start no new jobs. */
  #pausedAgents: ReadonlySet<string> = new Set();
  /** Whether no agent does. */
  #isDrained = false;
  readonly #shares = new Map<string, Share>();
  readonly #perAgent = new Map<string, number>();
  readonly #keys = new Map<string, Key>();
  readonly #waiting = new WaitingLine<Entry>((workspace) => this.#shareOf(workspace));
  /** Jobs that ran before, waited for something, and can continue. */
  readonly #returning = new WaitingLine<Entry>(() => EVERYBODY);
  #running = 0;
  #counter = 0;
  #isClosed = false;
  /** Seconds that a slot was last held, evened out. */
  #turnTime = 1;

  /** Settles when slots are given out; there from the beginning where they are. */
  readonly #resumed: Promise<void>;
  #resume: () => void = () => {};
  #isPaused: boolean;

  constructor(options: {
    slots: number;
    /** The limits of agents, by slug; of one without, only those of the service hold. */
    agents?: ReadonlyMap<string, AgentLimits>;
    /** Jobs of a workspace that may run; `undefined` for no limit. @default no workspace has one */
    slotsIn?: ((workspace: string) => number | undefined) | undefined;
    clock?: () => Date;
    startTimer: StartTimer;
    isPaused?: boolean;
    /** Whether limits hold for several instances: what jobs keep of them is not known here. @default false */
    isShared?: boolean;
  }) {
    this.#slots = options.slots;
    this.#agents = options.agents ?? new Map();
    this.#slotsIn = options.slotsIn;
    this.#rates = new StartRates({ ...options, rateOf: (agent) => this.#agents.get(agent)?.rate });
    this.#isShared = options.isShared ?? false;
    this.#isPaused = options.isPaused ?? false;
    this.#resumed = new Promise((resolve) => {
      this.#resume = resolve;
    });
    if (!this.#isPaused) this.#resume();
  }

  /** Whether no slot is given out until `resume` is called. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Gives slots out, those that wait first. */
  resume(): void {
    this.#isPaused = false;
    this.#resume();
    this.#serve();
  }

  /** These agents start no new jobs, or no agent does; what has started continues. */
  pauseAgents(slugs: ReadonlySet<string>, isDrained = false): void {
    this.#pausedAgents = slugs;
    this.#isDrained = isDrained;
    this.#serve();
  }

  isAgentPaused(slug: string): boolean {
    return this.#pausedAgents.has(slug);
  }

  /** Waits until slots are given out. */
  whenResumed(): Promise<void> {
    return this.#resumed;
  }

  get running(): number {
    return this.#running;
  }

  /** How many more jobs could run now, beside those that wait. */
  get free(): number {
    if (this.#isClosed || this.#isPaused) return 0;
    return Math.max(0, this.#slots - this.#running - this.#waiting.size - this.#returning.size);
  }

  /** Jobs of a workspace that run now. */
  runningOf(workspace: string): number {
    return this.#shares.get(workspace)?.running ?? 0;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** Whether a slot is free for a job, whatever other instances have of its limits: it may have a part of these itself. */
  hasRoom({ agent, workspace }: QueuedJob): boolean {
    const isFree = !this.#isClosed && !this.#isPaused && this.#running < this.#slots;
    const most = this.#slotsIn?.(workspace);
    return isFree && (most === undefined || this.runningOf(workspace) < most) && this.#hasSlotOf(agent);
  }

  /** Whether no more slots will be assigned. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether a slot is free for a job, and its concurrency key is. */
  hasFreeSlot(job: QueuedJob): boolean {
    if (this.#isClosed || this.#isPaused || !this.#mayHave(job, this.#rateOf(job))) return false;
    return job.key == null || this.#gateOf(job)?.isOpen !== false;
  }

  /** Waits for a slot for a job that ran before: it comes before those that have not. */
  async takeAgain(job: QueuedJob, order = this.#counter++): Promise<Slot> {
    await this.retake(job, order);
    return new Slot(this, job, order);
  }

  /** A slot, where one is free. */
  tryTake(job: QueuedJob): Slot | undefined {
    if (!this.hasFreeSlot(job)) return undefined;
    this.#occupy(job, this.#rateOf(job));
    return new Slot(this, job, this.#counter++);
  }

  /**
   * Waits for a slot; resolves without one if the job was withdrawn. One that comes back after it was refused gives
   * the order that it had.
   */
  async take(job: QueuedJob, order = this.#counter++): Promise<Slot | undefined> {
    const isGranted = await this.#queue(this.#waiting, job, order);
    return isGranted ? new Slot(this, job, order) : undefined;
  }

  /** Jobs of all instances together have all of a limit, or no longer do. */
  block(
    { kind, agent, key }: { kind: string; agent: string; key?: string | undefined },
    isBlocked: boolean,
  ): void {
    if (kind === "workspace") {
      if (isBlocked) this.#blockedWorkspaces.add(agent);
      else this.#blockedWorkspaces.delete(agent);
    } else if (kind === "agent") {
      if (isBlocked) this.#blocked.add(agent);
      else this.#blocked.delete(agent);
    } else {
      const job = { jobId: "", agent, key, workspace: "" };
      const gate = this.#keyOf(job);
      if (!gate) return;
      const wasOpen = gate.isOpen;
      gate.isBlocked = isBlocked;
      if (gate.isOpen !== wasOpen) this.#gateChanged(gate);
      this.#forget(job);
    }
    if (!isBlocked) this.#serve();
  }

  /** When the last jobs of an agent, or of a key of its rate limit, have started, at all instances together, the oldest first. */
  setStarts(agent: string, key: string | undefined, starts: readonly number[]): void {
    const rate = this.#rates.nameOf(agent, key);
    if (rate !== undefined) this.#rates.set(rate, starts);
  }

  /** Removes a waiting job from the queue. */
  remove(jobId: string): void {
    const one = this.#waiting.remove(jobId);
    if (!one) return;
    this.#forget(one.job);
    one.grant(false);
  }

  /** Gives a job that was started before its concurrency key, where jobs keep theirs: whatever the limit is now. */
  hold(job: QueuedJob): void {
    if (!this.#agents.get(job.agent)?.key?.isKept) return;
    this.#changeHold(job, (hold) => {
      hold.isKept = true;
    });
  }

  /** A job of an agent started at this time, in an earlier process: its rate limit counts that. Called in order of time. */
  startedBefore({ agent, rateKey }: QueuedJob, at: number): void {
    const rate = this.#rates.nameOf(agent, rateKey);
    if (rate !== undefined) this.#rates.started(rate, at);
  }

  /** When the rate limit lets the next job start that counts as this one, in milliseconds since 1970; `undefined` if it does now. */
  nextStart(job: QueuedJob): number | undefined {
    const rate = this.#rateOf(job);
    return rate === undefined ? undefined : this.#rates.nextAt(rate);
  }

  /** A job has ended: another one may have its concurrency key, once it has left its slot. */
  ended(job: QueuedJob): void {
    this.#changeHold(job, (hold) => {
      hold.isKept = false;
    });
    this.#serve();
  }

  /** Gives no more slots; those that wait stay in the store for the next start. */
  close(): void {
    this.#isClosed = true;
    this.#rates.close();
  }

  /** Position of a job in the queue, as far as known. */
  position(jobId: string): QueuePosition | undefined {
    if (this.#waiting.size === 0) return undefined;
    const ahead = this.#waiting.ahead(jobId);
    return ahead === undefined ? undefined : { position: ahead + 1, queued: this.#waiting.size };
  }

  /** How many wait for the concurrency key of a waiting job before it, where that key is what it waits for. */
  aheadAtKey(jobId: string): number | undefined {
    return this.#waiting.aheadAtGate(jobId);
  }

  /** Seconds until a slot in the queue should be free, for one who found it full. */
  retryAfter(): number {
    return Math.min(Math.max(Math.ceil(this.#turnTime / this.#slots), 1), 60);
  }

  /** @internal The slot was not used: its job did not start. Where others have all of a limit, `refuse` says so. */
  withdraw(job: QueuedJob, refuse: () => void): void {
    const rate = this.#rateOf(job);
    if (rate !== undefined) this.#rates.takeBack(rate);
    // Before the slot is free for the next one.
    refuse();
    this.release(job, this.#turnTime);
  }

  /** @internal */
  release(job: QueuedJob, seconds: number, isOver = false): void {
    this.watch?.rested(job, isOver);
    this.#turnTime += (seconds - this.#turnTime) / 8;
    this.#running--;
    this.#perAgent.set(job.agent, this.#perAgent.get(job.agent)! - 1);
    this.#shareOf(job.workspace).running--;
    if (this.#waiting.size > 0) this.#waiting.shareChanged(job.workspace);
    if (job.key != null) {
      this.#changeHold(job, (hold) => {
        hold.slots--;
      });
    }
    this.#forget(job);
    this.#serve();
  }

  /** @internal */
  retake(job: QueuedJob, order = this.#counter++): Promise<boolean> {
    return this.#queue(this.#returning, job, order);
  }

  #queue(line: WaitingLine<Entry>, job: QueuedJob, order: number): Promise<boolean> {
    const { jobId } = job;
    const isBack = line === this.#returning;
    const workspace = isBack ? "" : job.workspace;
    const agent = isBack ? this.#nameIn(job.workspace, job.agent) : this.#nameInLine(job);
    return new Promise((grant) => {
      const gate = this.#gateOf(job);
      line.add({ jobId, agent, workspace, gate, job, grant, order });
      this.#serve();
    });
  }

  /** By what name its start is counted; `undefined` if it is not. */
  #rateOf({ agent, rateKey, isFirst }: QueuedJob): string | undefined {
    const isCounted = isFirst === true && this.#agents.get(agent)?.rate !== undefined;
    return isCounted ? this.#rates.nameOf(agent, rateKey) : undefined;
  }

  #nameInLine(job: QueuedJob): string {
    const rate = this.#rateOf(job);
    if (rate !== undefined) return this.#nameIn(job.workspace, `${rate}${RATED}`);
    return this.#nameIn(job.workspace, job.isFirst === true ? `${job.agent}${FIRST}` : job.agent);
  }

  /** A name for those of a workspace only, where that has a limit. */
  #nameIn(workspace: string, name: string): string {
    if (this.#slotsIn?.(workspace) === undefined) return name;
    return `${LIMITED}${JSON.stringify(workspace)}${LIMITED}${name}`;
  }

  /** Whether there is a slot for those who wait under a name. */
  #fits(given: string): boolean {
    let name = given;
    let workspace: string | undefined;
    if (name.startsWith(LIMITED)) {
      const end = name.indexOf(LIMITED, 1);
      workspace = JSON.parse(name.slice(1, end)) as string;
      name = name.slice(end + 1);
    }
    if (name.endsWith(RATED)) {
      const rate = name.slice(0, -RATED.length);
      return this.#mayHave({ agent: this.#rates.agentOf(rate), workspace, isFirst: true }, rate);
    }
    const isFirst = name.endsWith(FIRST);
    return this.#mayHave({ agent: isFirst ? name.slice(0, -FIRST.length) : name, workspace, isFirst });
  }

  /** Whether there is a slot for jobs of an agent, and of a workspace; where `rate` counts their starts, whether one may start. */
  #mayHave(
    { agent, workspace, isFirst }: Partial<QueuedJob> & Pick<QueuedJob, "agent">,
    rate?: string,
  ): boolean {
    const most = workspace === undefined ? undefined : this.#slotsIn?.(workspace);
    if (most !== undefined && (this.#blockedWorkspaces.has(workspace!) || this.runningOf(workspace!) >= most))
      return false;
    if (isFirst === true && (this.#isDrained || this.#pausedAgents.has(agent))) return false;
    if (this.#blocked.has(agent) || this.#running >= this.#slots || !this.#hasSlotOf(agent)) return false;
    if (rate === undefined || this.#rates.nextAt(rate) === undefined) return true;
    this.#rates.whenFree(rate, () => this.#serve());
    return false;
  }

  /** Whether an agent runs fewer jobs than it may. */
  #hasSlotOf(agent: string): boolean {
    return (this.#perAgent.get(agent) ?? 0) < (this.#agents.get(agent)?.slots ?? this.#slots);
  }

  #occupy(job: QueuedJob, rate: string | undefined): void {
    const { agent, workspace } = job;
    if (rate !== undefined) this.#rates.started(rate);
    this.watch?.began(job);
    this.#running++;
    this.#perAgent.set(agent, (this.#perAgent.get(agent) ?? 0) + 1);
    const share = this.#shareOf(workspace);
    share.running++;
    share.served = ++this.#counter;
    if (this.#waiting.size > 0) this.#waiting.shareChanged(workspace);
    if (job.key == null) return;
    const isKept = !this.#isShared && (this.#agents.get(agent)?.key?.isKept ?? false);
    this.#changeHold(job, (hold) => {
      hold.slots++;
      hold.isKept ||= isKept;
    });
  }

  #serve(): void {
    if (this.#waiting.size === 0 && this.#returning.size === 0) return;
    const fits = (name: string): boolean => this.#fits(name);
    while (!this.#isClosed && !this.#isPaused && this.#running < this.#slots) {
      const next = this.#returning.next(fits) ?? this.#waiting.next(fits);
      if (!next) return;
      this.#occupy(next.job, next.agent.endsWith(RATED) ? this.#rateOf(next.job) : undefined);
      next.grant(true);
    }
  }

  /** Where a job has to wait besides: at its concurrency key, unless it has that. */
  #gateOf(job: QueuedJob): Key | undefined {
    const key = this.#keyOf(job);
    if (key?.holders.has(job.jobId)) return undefined;
    const { isFirst, isRefused } = job;
    const keeps = this.#isShared && isFirst === false && this.#agents.get(job.agent)?.key?.isKept;
    return keeps && !isRefused ? undefined : key;
  }

  #keyOf({ agent, key }: QueuedJob): Key | undefined {
    const limit = key == null ? undefined : this.#agents.get(agent)?.key;
    if (!limit) return undefined;
    const id = `${agent} ${key}`;
    return getOrMake(this.#keys, id, () => new Key(id, limit));
  }

  /** Changes what a job has of its concurrency key. */
  #changeHold(job: QueuedJob, change: (hold: { slots: number; isKept: boolean }) => void): void {
    const key = this.#keyOf(job);
    if (!key) return;
    const wasOpen = key.isOpen;
    const hold = getOrMake(key.holders, job.jobId, () => ({ slots: 0, isKept: false }));
    change(hold);
    if (hold.slots <= 0 && !hold.isKept) key.holders.delete(job.jobId);
    if (key.isOpen !== wasOpen) this.#gateChanged(key);
    this.#forget(job);
  }

  #gateChanged(key: Key): void {
    this.#waiting.gateChanged(key);
    this.#returning.gateChanged(key);
  }

  #shareOf(workspace: string): Share {
    return getOrMake(this.#shares, workspace, () => ({ running: 0, served: 0 }));
  }

  /** Keeps nothing of workspaces and keys that nobody uses. */
  #forget(job: QueuedJob): void {
    const { workspace } = job;
    const isIdle = this.#shares.get(workspace)?.running === 0;
    if (isIdle && (this.#waiting.size === 0 || !this.#waiting.hasWaitingOf(workspace)))
      this.#shares.delete(workspace);
    const key = job.key == null ? undefined : this.#keyOf(job);
    if (!key || key.holders.size > 0 || key.isBlocked) return;
    if (!this.#waiting.hasWaitingAt(key) && !this.#returning.hasWaitingAt(key)) this.#keys.delete(key.id);
  }
}

/** Those that return are served in order of arrival, whatever workspace they are of. */
const EVERYBODY: Share = { running: 0, served: 0 };
