import { getOrMake } from "../../base/get-or-make.ts";
import type { StartTimer } from "../../base/timer.ts";
import type { StoredJob } from "../../models/job.ts";
import type { QueuePosition } from "../runner.ts";
import { type Rate, StartRates } from "./start-rates.ts";
import { type Gate, type Waiting, WaitingLine } from "./waiting-line.ts";

/** Who asks for a place. */
export interface Applicant {
  readonly jobId: string;
  /** The agent's slug. */
  readonly agent: string;
  readonly workspace: string;
  /** Its concurrency key, where it has one. */
  readonly key?: string | null | undefined;
  /** What its agent's rate limit counts it by, where that has a key. */
  readonly rateKey?: string | null | undefined;
  /** Whether it has not started before: its agent's rate limit counts it. */
  readonly isFirst?: boolean;
  /** Whether it was let in here, and other jobs had its concurrency key. */
  readonly isRefused?: boolean;
}

/** Who a job is to the scheduler. */
export function toApplicant({
  id,
  agent_name,
  job_context,
  concurrency_key,
  rate_key,
  run_count,
}: Pick<StoredJob, "id" | "agent_name" | "job_context"> & Partial<StoredJob>): Applicant {
  return {
    jobId: id,
    agent: agent_name,
    workspace: job_context.workspace_id,
    key: concurrency_key,
    rateKey: rate_key,
    isFirst: !run_count,
  };
}

/** How many jobs of one concurrency key run at the same time. */
export interface KeyLimit {
  readonly limit: number;
  /** Whether a job keeps its key until it ends, also while it waits without a slot. */
  readonly isKept: boolean;
}

/** Is notified who gets a slot, and who releases it. */
export interface PlaceWatch {
  began(applicant: Applicant): void;
  /** `isOver` where its run has ended. */
  rested(applicant: Applicant, isOver: boolean): void;
}

/** Ends the name under which first starts of an agent with a rate limit wait: others of that agent do not wait for it. */
const RATED = "\0start";
/** The same of an agent without one: where the agent is paused, only they wait. */
const FIRST = "\0first";

interface Queued extends Waiting {
  readonly applicant: Applicant;
  readonly grant: (granted: boolean) => void;
}

/** A concurrency key: open while another job may have it. */
class Key implements Gate {
  readonly id: string;
  readonly limitOf: () => KeyLimit | undefined;
  /** The jobs that have it: with how many slots, and whether they keep it without one. */
  readonly holders = new Map<string, { slots: number; isKept: boolean }>();
  /** Whether jobs of all instances together have all of it. */
  isBlocked = false;

  constructor(id: string, limitOf: () => KeyLimit | undefined) {
    this.id = id;
    this.limitOf = limitOf;
  }

  get isOpen(): boolean {
    return !this.isBlocked && this.holders.size < (this.limitOf()?.limit ?? Number.POSITIVE_INFINITY);
  }
}

interface Share {
  running: number;
  /** When the workspace last got a place, in order of grants. */
  served: number;
}

/**
 * Gives out the places that jobs run in: so many per service and per agent. Those that wait are served in the order
 * in which they came, in turn for each workspace, so that no one's backlog holds up the others.
 */
export class Scheduler {
  readonly #places: number;
  readonly #placesOf: (agent: string) => number;
  readonly #keyLimitOf: (agent: string) => KeyLimit | undefined;
  readonly #rates: StartRates;
  /** Is notified from when it is set. */
  watch: PlaceWatch | undefined;
  readonly #isShared: boolean;
  /** Agents of which as many jobs run as may, at all instances together. */
  readonly #blocked = new Set<string>();
  /** Agents that start no new jobs. */
  #pausedAgents: ReadonlySet<string> = new Set();
  /** Whether no agent does. */
  #isDrained = false;
  readonly #shares = new Map<string, Share>();
  readonly #perAgent = new Map<string, number>();
  readonly #keys = new Map<string, Key>();
  readonly #waiting = new WaitingLine<Queued>((workspace) => this.#shareOf(workspace));
  /** Jobs that ran before, waited for something, and can continue. */
  readonly #returning = new WaitingLine<Queued>(() => EVERYBODY);
  #running = 0;
  #counter = 0;
  #isClosed = false;
  /** Seconds that a place was last held, evened out. */
  #turnTime = 1;

  /** Settles when places are given out; there from the beginning where they are. */
  readonly #resumed: Promise<void>;
  #resume: () => void = () => {};
  #isPaused: boolean;

  constructor(options: {
    places: number;
    placesOf: (agent: string) => number;
    keyLimitOf?: (agent: string) => KeyLimit | undefined;
    rateOf?: (agent: string) => Rate | undefined;
    clock?: () => Date;
    startTimer: StartTimer;
    isPaused?: boolean;
    /** Whether limits hold for several instances: what jobs keep of them is not known here. @default false */
    isShared?: boolean;
  }) {
    this.#places = options.places;
    this.#placesOf = options.placesOf;
    this.#keyLimitOf = options.keyLimitOf ?? (() => undefined);
    this.#rates = new StartRates(options);
    this.#isShared = options.isShared ?? false;
    this.#isPaused = options.isPaused ?? false;
    this.#resumed = new Promise((resolve) => {
      this.#resume = resolve;
    });
    if (!this.#isPaused) this.#resume();
  }

  /** Whether no place is given out until `resume` is called. */
  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Gives places out, those that wait first. */
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

  /** Waits until places are given out. */
  whenResumed(): Promise<void> {
    return this.#resumed;
  }

  get running(): number {
    return this.#running;
  }

  /** How many more jobs could run now, beside those that wait. */
  get free(): number {
    if (this.#isClosed || this.#isPaused) return 0;
    return Math.max(0, this.#places - this.#running - this.#waiting.size - this.#returning.size);
  }

  /** Jobs of a workspace that run now. */
  runningOf(workspace: string): number {
    return this.#shares.get(workspace)?.running ?? 0;
  }

  get queued(): number {
    return this.#waiting.size;
  }

  /** Whether a place is free for a job, whatever other instances have of its limits: it may have a part of these itself. */
  hasRoom({ agent }: Applicant): boolean {
    const isFree = !this.#isClosed && !this.#isPaused && this.#running < this.#places;
    return isFree && (this.#perAgent.get(agent) ?? 0) < this.#placesOf(agent);
  }

  /** Whether no more slots will be assigned. */
  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Whether a place is free for a job, and its concurrency key is. */
  hasPlace(applicant: Applicant): boolean {
    const isFree = !this.#isClosed && !this.#isPaused && this.#fits(this.#nameInLine(applicant));
    return isFree && this.#gateOf(applicant)?.isOpen !== false;
  }

  /** Waits for a place for a job that ran before: it comes before those that have not. */
  async takeAgain(applicant: Applicant, order = this.#counter++): Promise<Place> {
    await this.retake(applicant, order);
    return new Place(this, applicant, order);
  }

  /** A place, where one is free. */
  tryTake(applicant: Applicant): Place | undefined {
    if (!this.hasPlace(applicant)) return undefined;
    this.#occupy(applicant, this.#rateOf(applicant));
    return new Place(this, applicant, this.#counter++);
  }

  /**
   * Waits for a slot; resolves without one if the applicant was withdrawn. One that comes back after it was refused gives
   * the order that it had.
   */
  async take(applicant: Applicant, order = this.#counter++): Promise<Place | undefined> {
    const isGranted = await this.#queue(this.#waiting, applicant, order);
    return isGranted ? new Place(this, applicant, order) : undefined;
  }

  /** Jobs of all instances together have all of a limit, or no longer do. */
  block(
    { kind, agent, key }: { kind: string; agent: string; key?: string | undefined },
    isBlocked: boolean,
  ): void {
    if (kind === "agent") {
      if (isBlocked) this.#blocked.add(agent);
      else this.#blocked.delete(agent);
    } else {
      const applicant = { jobId: "", agent, key, workspace: "" };
      const gate = this.#keyOf(applicant);
      if (!gate) return;
      const wasOpen = gate.isOpen;
      gate.isBlocked = isBlocked;
      if (gate.isOpen !== wasOpen) this.#gateChanged(gate);
      this.#forget(applicant);
    }
    if (!isBlocked) this.#serve();
  }

  /** When the last jobs of an agent, or of a key of its rate limit, have started, at all instances together, the oldest first. */
  setStarts(agent: string, key: string | undefined, starts: readonly number[]): void {
    const rate = this.#rates.nameOf(agent, key);
    if (rate !== undefined) this.#rates.set(rate, starts);
  }

  /** Removes a waiting job from the queue. */
  callOff(jobId: string): void {
    const one = this.#waiting.remove(jobId);
    if (!one) return;
    this.#forget(one.applicant);
    one.grant(false);
  }

  /** Gives a job that was started before its concurrency key, where jobs keep theirs: whatever the limit is now. */
  hold(applicant: Applicant): void {
    if (!this.#keyLimitOf(applicant.agent)?.isKept) return;
    this.#changeHold(applicant, (hold) => {
      hold.isKept = true;
    });
  }

  /** A job of an agent started at this time, in an earlier process: its rate limit counts that. Called in order of time. */
  startedBefore({ agent, rateKey }: Applicant, at: number): void {
    const rate = this.#rates.nameOf(agent, rateKey);
    if (rate !== undefined) this.#rates.started(rate, at);
  }

  /** When the rate limit lets the next job start that counts as this one, in milliseconds since 1970; `undefined` if it does now. */
  nextStart(applicant: Applicant): number | undefined {
    const rate = this.#rateOf(applicant);
    return rate === undefined ? undefined : this.#rates.nextAt(rate);
  }

  /** A job has ended: another one may have its concurrency key, once it has left its slot. */
  ended(applicant: Applicant): void {
    this.#changeHold(applicant, (hold) => {
      hold.isKept = false;
    });
    this.#serve();
  }

  /** Gives no more places; those that wait stay in the store for the next start. */
  close(): void {
    this.#isClosed = true;
    this.#rates.close();
  }

  /** Position of a job in the queue, as far as known. */
  position(jobId: string): QueuePosition | undefined {
    const ahead = this.#waiting.ahead(jobId);
    return ahead === undefined ? undefined : { position: ahead + 1, queued: this.#waiting.size };
  }

  /** How many wait for the concurrency key of a waiting job before it, where that key is what it waits for. */
  aheadAtKey(jobId: string): number | undefined {
    return this.#waiting.aheadAtGate(jobId);
  }

  /** Seconds until a place in the queue should be free, for one who found it full. */
  retryAfter(): number {
    return Math.min(Math.max(Math.ceil(this.#turnTime / this.#places), 1), 60);
  }

  /** @internal The place was not used: its applicant did not start. Where others have all of a limit, `refuse` tells. */
  withdraw(applicant: Applicant, refuse: () => void): void {
    const rate = this.#rateOf(applicant);
    if (rate !== undefined) this.#rates.takeBack(rate);
    // Before the place is free for the next one.
    refuse();
    this.release(applicant, this.#turnTime);
  }

  /** @internal */
  release(applicant: Applicant, seconds: number, isOver = false): void {
    this.watch?.rested(applicant, isOver);
    this.#turnTime += (seconds - this.#turnTime) / 8;
    this.#running--;
    this.#perAgent.set(applicant.agent, this.#perAgent.get(applicant.agent)! - 1);
    this.#shareOf(applicant.workspace).running--;
    this.#waiting.shareChanged(applicant.workspace);
    this.#changeHold(applicant, (hold) => {
      hold.slots--;
    });
    this.#forget(applicant);
    this.#serve();
  }

  /** @internal */
  retake(applicant: Applicant, order = this.#counter++): Promise<boolean> {
    return this.#queue(this.#returning, applicant, order);
  }

  #queue(line: WaitingLine<Queued>, applicant: Applicant, order: number): Promise<boolean> {
    const { jobId } = applicant;
    const isBack = line === this.#returning;
    const workspace = isBack ? "" : applicant.workspace;
    const agent = isBack ? applicant.agent : this.#nameInLine(applicant);
    return new Promise((grant) => {
      const gate = this.#gateOf(applicant);
      line.add({ jobId, agent, workspace, gate, applicant, grant, order });
      this.#serve();
    });
  }

  /** By what name its start is counted; `undefined` if it is not. */
  #rateOf({ agent, rateKey, isFirst }: Applicant): string | undefined {
    return isFirst === true ? this.#rates.nameOf(agent, rateKey) : undefined;
  }

  #nameInLine(applicant: Applicant): string {
    const rate = this.#rateOf(applicant);
    if (rate !== undefined) return `${rate}${RATED}`;
    return applicant.isFirst === true ? `${applicant.agent}${FIRST}` : applicant.agent;
  }

  /** Whether there is a slot for those who wait under a name. */
  #fits(name: string): boolean {
    if (name.endsWith(FIRST)) return this.#mayStart(name.slice(0, -FIRST.length));
    if (!name.endsWith(RATED)) return this.#hasSlot(name);
    const rate = name.slice(0, -RATED.length);
    if (!this.#mayStart(this.#rates.agentOf(rate))) return false;
    if (this.#rates.nextAt(rate) === undefined) return true;
    this.#rates.whenFree(rate, () => this.#serve());
    return false;
  }

  #mayStart(agent: string): boolean {
    return !this.#isDrained && !this.#pausedAgents.has(agent) && this.#hasSlot(agent);
  }

  #hasSlot(agent: string): boolean {
    if (this.#blocked.has(agent)) return false;
    return this.#running < this.#places && (this.#perAgent.get(agent) ?? 0) < this.#placesOf(agent);
  }

  #occupy(applicant: Applicant, rate: string | undefined): void {
    const { agent, workspace } = applicant;
    if (rate !== undefined) this.#rates.started(rate);
    this.watch?.began(applicant);
    this.#running++;
    this.#perAgent.set(agent, (this.#perAgent.get(agent) ?? 0) + 1);
    const share = this.#shareOf(workspace);
    share.running++;
    share.served = ++this.#counter;
    this.#waiting.shareChanged(workspace);
    const isKept = !this.#isShared && (this.#keyLimitOf(applicant.agent)?.isKept ?? false);
    this.#changeHold(applicant, (hold) => {
      hold.slots++;
      hold.isKept ||= isKept;
    });
  }

  #serve(): void {
    const fits = (name: string): boolean => this.#fits(name);
    while (!this.#isClosed && !this.#isPaused && this.#running < this.#places) {
      const next = this.#returning.next(fits) ?? this.#waiting.next(fits);
      if (!next) return;
      this.#occupy(next.applicant, next.agent.endsWith(RATED) ? this.#rateOf(next.applicant) : undefined);
      next.grant(true);
    }
  }

  /** Where a job has to wait besides: at its concurrency key, unless it has that. */
  #gateOf(applicant: Applicant): Key | undefined {
    const key = this.#keyOf(applicant);
    if (key?.holders.has(applicant.jobId)) return undefined;
    const { isFirst, isRefused } = applicant;
    const keeps = this.#isShared && isFirst === false && this.#keyLimitOf(applicant.agent)?.isKept;
    return keeps && !isRefused ? undefined : key;
  }

  #keyOf({ agent, key }: Applicant): Key | undefined {
    if (key == null || !this.#keyLimitOf(agent)) return undefined;
    const id = `${agent} ${key}`;
    return getOrMake(this.#keys, id, () => new Key(id, () => this.#keyLimitOf(agent)));
  }

  /** Changes what a job has of its concurrency key. */
  #changeHold(applicant: Applicant, change: (hold: { slots: number; isKept: boolean }) => void): void {
    const key = this.#keyOf(applicant);
    if (!key) return;
    const wasOpen = key.isOpen;
    const hold = getOrMake(key.holders, applicant.jobId, () => ({ slots: 0, isKept: false }));
    change(hold);
    if (hold.slots <= 0 && !hold.isKept) key.holders.delete(applicant.jobId);
    if (key.isOpen !== wasOpen) this.#gateChanged(key);
    this.#forget(applicant);
  }

  #gateChanged(key: Key): void {
    this.#waiting.gateChanged(key);
    this.#returning.gateChanged(key);
  }

  #shareOf(workspace: string): Share {
    return getOrMake(this.#shares, workspace, () => ({ running: 0, served: 0 }));
  }

  /** Keeps nothing of workspaces and keys that nobody uses. */
  #forget(applicant: Applicant): void {
    const { workspace } = applicant;
    if (this.#shares.get(workspace)?.running === 0 && !this.#waiting.hasWaitingOf(workspace))
      this.#shares.delete(workspace);
    const key = this.#keyOf(applicant);
    if (!key || key.holders.size > 0 || key.isBlocked) return;
    if (!this.#waiting.hasWaitingAt(key) && !this.#returning.hasWaitingAt(key)) this.#keys.delete(key.id);
  }
}

/** Those that return are served in order of arrival, whatever workspace they are of. */
const EVERYBODY: Share = { running: 0, served: 0 };

/** What a run has, besides its place, only while it works: its part of limits that hold for all instances. */
export interface SharedPart {
  rest(): Promise<void>;
  /** Takes it again; where others have all of it, the result tells the scheduler, and it is asked for again later. */
  retake(): Promise<(() => void) | undefined>;
}

/** A place that one job runs in; given up while the job only waits. */
export class Place {
  /** When its applicant came. */
  readonly order: number;
  readonly #scheduler: Scheduler;
  readonly #applicant: Applicant;
  #isHeld = true;
  #isLeft = false;
  #since = performance.now();
  #retaking: Promise<void> | undefined;
  #part: SharedPart | undefined;
  /** Settles once the part is given back. */
  #rested: Promise<void> | undefined;

  constructor(scheduler: Scheduler, applicant: Applicant, order: number) {
    this.#scheduler = scheduler;
    this.#applicant = applicant;
    this.order = order;
  }

  /** From now on the run has this together with its place. */
  share(part: SharedPart | undefined): void {
    this.#part = part;
  }

  /** It was not used. Where others have all of a limit, `refuse` tells the scheduler. */
  withdraw(refuse: () => void = () => {}): void {
    this.#isHeld = false;
    this.#scheduler.withdraw(this.#applicant, refuse);
  }

  get isHeld(): boolean {
    return this.#isHeld;
  }

  release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#scheduler.release(this.#applicant, (performance.now() - this.#since) / 1000, this.#isLeft);
    this.#rested = this.#part?.rest();
  }

  /** Releases it permanently: if it was waited for again, the next one gets it. */
  leave(): void {
    this.#isLeft = true;
    this.release();
  }

  /** Waits for a place again, where it was given up. */
  retake(): Promise<void> {
    if (this.#isHeld) return Promise.resolve();
    this.#retaking ??= this.#comeBack().then(() => {
      this.#isHeld = true;
      this.#since = performance.now();
      this.#retaking = undefined;
      if (this.#isLeft) this.release();
    });
    return this.#retaking;
  }

  async #comeBack(): Promise<void> {
    // It has a key that it keeps, though it may have been refused that key before its turn came.
    const applicant = { ...this.#applicant, isFirst: false, isRefused: false };
    let order: number | undefined;
    for (;;) {
      order = (await this.#scheduler.takeAgain(applicant, order)).order;
      await this.#rested;
      const refuse = this.#isLeft ? undefined : await this.#part?.retake();
      if (!refuse) return;
      this.#scheduler.withdraw(applicant, refuse);
    }
  }
}
